module toolmend.invalid/checkers

go 1.24

require github.com/compose-spec/compose-go/v2 v2.16.2
