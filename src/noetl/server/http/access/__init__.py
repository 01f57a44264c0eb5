"""Who may call the API: tokens, what each is for, limits on requests, and the audit log of what was called."""

from typing import TYPE_CHECKING

from noetl.lazy import export_lazily

if TYPE_CHECKING:
    from noetl.server.http.access.audit_trail import AuditTrail as AuditTrail
    from noetl.server.http.access.caller import Caller as Caller
    from noetl.server.http.access.guard import (
        REFUSED as REFUSED,
        AccessGuard as AccessGuard,
        ServerNames as ServerNames,
        is_loopback as is_loopback,
    )
    from noetl.server.http.access.request_limits import RequestLimits as RequestLimits
    from noetl.server.http.access.tokens import (
        KnownTokens as KnownTokens,
        TokenFile as TokenFile,
        add_token as add_token,
        make_owner_token as make_owner_token,
        new_token as new_token,
        remove_token as remove_token,
    )
else:
    __getattr__ = export_lazily(
        __name__,
        {
            "audit_trail": "AuditTrail",
            "caller": "Caller",
            "guard": "AccessGuard REFUSED ServerNames is_loopback",
            "request_limits": "RequestLimits",
            "tokens": "KnownTokens TokenFile add_token make_owner_token new_token remove_token",
        },
    )
