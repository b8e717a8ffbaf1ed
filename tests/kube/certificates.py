"""Keys and certificates of a control plane, as the sandbox makes them too."""

from anycloud_control_plane.certificates import Authority, key_pem, new_key, public_pem, request_pem

__all__ = ["Authority", "key_pem", "new_key", "public_pem", "request_pem"]
