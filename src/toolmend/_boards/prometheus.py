"""A client for Prometheus' query API: just enough to ask what a board asks."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from toolmend.errors import ToolmendError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT_SECONDS: Final = 30.0


class PrometheusError(ToolmendError):
    """Prometheus did not answer, or answered with something else than values."""


class QueryRefusedError(PrometheusError):
    """Prometheus refused one query; it may well answer others."""


class _StayHere(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the headers may be a secret, and they would go along."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_StayHere)


@dataclass(frozen=True, slots=True)
class Sample:
    """One series at one moment."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server that speaks Prometheus' HTTP API, version 1.

    Attributes:
        url: its address, with a path if the API is below one.
        headers: sent along, as ``Authorization``.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def query(self, expr: str) -> list[Sample]:
        """Return what an expression is now.

        Raises:
            QueryRefusedError: the query was refused.
            PrometheusError: there is no such server, or it speaks something else.
        """
        data = self._ask("query", {"query": expr})
        try:
            result = data["result"]
            if result and not isinstance(result[0], dict):
                return [Sample({}, float(result[1]))]  # a scalar
            return [Sample(found["metric"], float(found["value"][1])) for found in result]
        except (LookupError, TypeError, ValueError) as error:
            raise self._strange() from error

    def label_values(self, selector: str, label: str) -> list[str]:
        """Return the values that a label has in the series of a selector.

        Raises:
            QueryRefusedError: the selector was refused.
            PrometheusError: there is no such server, or it speaks something else.
        """
        values = self._ask(f"label/{label}/values", {"match[]": selector}, post=False)
        if not isinstance(values, list):
            raise self._strange()
        return [str(value) for value in values]

    def _ask(self, path: str, parameters: Mapping[str, str], *, post: bool = True) -> Any:
        address = f"{self.url.rstrip('/')}/api/v1/{path}"
        encoded = urllib.parse.urlencode(parameters)
        request = urllib.request.Request(  # noqa: S310 - http or https, see the command's check
            address if post else f"{address}?{encoded}",
            data=encoded.encode() if post else None,
            headers=dict(self.headers),
        )
        try:
            with _OPENER.open(request, timeout=_TIMEOUT_SECONDS) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            raise self._refusal(error) from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise PrometheusError(f"no Prometheus answers at {self.url}: {reason}") from error
        try:
            return json.loads(body)["data"]
        except (ValueError, LookupError, TypeError) as error:
            raise self._strange() from error

    def _strange(self) -> PrometheusError:
        return PrometheusError(f"{self.url} does not answer as a Prometheus does")

    def _refusal(self, error: urllib.error.HTTPError) -> PrometheusError:
        try:
            with error:
                reason = json.loads(error.read())["error"]
        except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
            return PrometheusError(
                f"{self.url} answered {error.code} {error.reason}: is this a Prometheus?"
            )
        return QueryRefusedError(f"Prometheus refused the query: {reason}")
