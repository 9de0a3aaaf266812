"""HTTP endpoints: each translates the request, calls one function, and translates the result."""

from starlette.convertors import Convertor, register_url_convertor

from services.facade.web import schemas


class _Text(Convertor[str]):
    """A part of a path, as text."""

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


class _Base(_Text):
    regex = "(?s:.*)"


class _Oid(_Text):
    regex = schemas.OID_PATTERN.strip("^$")


class _LockId(_Text):
    regex = schemas.LOCK_ID_PATTERN.strip("^$")


# The paths of the endpoints name these convertors, so they must be registered before any endpoint is defined.
register_url_convertor("base", _Base())
register_url_convertor("oid", _Oid())
register_url_convertor("lock_id", _LockId())
