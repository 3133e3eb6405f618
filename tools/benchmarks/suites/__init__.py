"""The suites by name. A suite is a function `rows(bench) -> list[Row]`; a new one is a module and a line here."""
from . import rdma, reactor, rtt, tcp

SUITES = {"rtt": rtt.rows, "reactor": reactor.rows, "tcp": tcp.rows, "rdma": rdma.rows}
