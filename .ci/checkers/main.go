// Reads a compose file as `docker compose config` does, with the reference loader of the Compose
// Specification: its schema, then whether what the services name is there. Prints the project as JSON.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: compose-check FILE"))
	}
	options, err := cli.NewProjectOptions(os.Args[1:])
	if err != nil {
		fail(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		fail(err)
	}
	text, err := project.MarshalJSON()
	if err != nil {
		fail(err)
	}
	fmt.Println(string(text))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
