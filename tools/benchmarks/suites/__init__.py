"""The suites by name. A suite is a function `rows(programs, seconds, cleanup)` that returns its rows and {name: Leg}; a new
one is a module and a line here. No two rows have one name."""
from . import rdma, reactor, rtt, tcp

SUITES = {"rtt": rtt.rows, "reactor": reactor.rows, "tcp": tcp.rows, "rdma": rdma.rows}
