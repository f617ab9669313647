# The demo as load for the stack, from the checkout, with the versions the tests run with.
FROM python:3.13-slim

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
# The wheel carries the boards and the rules.
COPY dashboards dashboards
RUN python -m pip install --root-user-action=ignore --constraint constraints.txt ".[all]"

USER 10001:10001
WORKDIR /
ENTRYPOINT ["toolmend"]
CMD ["demo", "--help"]
