"""Network addresses: checks, and conversions between `host:port` and its parts."""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address, ip_network

_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(?P<port>[0-9]{1,5})")


def are_networks(text: str) -> bool:
    """Return whether a text is a list of IP addresses or networks, separated by commas."""
    try:
        return all(ip_network(part.strip()) for part in text.split(","))
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host. Of names only `localhost` counts: others can change."""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost"
    return address in IPv4Network("127.0.0.0/8") if isinstance(address, IPv4Address) else address == IPv6Address("::1")


def is_address(text: str) -> bool:
    """Return whether a text is a host and a port, `host:port`.

    >>> is_address("10.0.0.5:8000"), is_address("[::1]:8000"), is_address("shop"), is_address("shop:99999")
    (True, True, False, False)
    """
    found = _ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found["port"]) < 2**16


def parted(address: str) -> tuple[str, int]:
    """Split an address into host and port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def joined(host: str, port: int) -> str:
    """Join a host and a port as an address, the inverse of `parted`.

    >>> joined("::1", 8000), parted(joined("::1", 8000))
    ('[::1]:8000', ('::1', 8000))
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_every(host: str) -> bool:
    """Return whether a host to listen on stands for all addresses of the machine, so that it is no address to announce."""
    return host in ("", "0.0.0.0", "::")  # noqa: S104
