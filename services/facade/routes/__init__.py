"""HTTP endpoints: each translates the request, calls one function, and translates the result."""

from starlette.convertors import PathConvertor, register_url_convertor

from services.facade.web import schemas


class _Base(PathConvertor):
    regex = "(?s:.*)"


class _Oid(PathConvertor):
    regex = schemas.OID_PATTERN.strip("^$")


class _LockId(PathConvertor):
    regex = schemas.LOCK_ID_PATTERN.strip("^$")


# The paths of the endpoints name these convertors, so they must be registered before any endpoint is defined.
register_url_convertor("base", _Base())
register_url_convertor("oid", _Oid())
register_url_convertor("lock_id", _LockId())
