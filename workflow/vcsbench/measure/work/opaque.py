"""No fingerprint."""

from vcsbench.measure.work.kind import Kind

KIND = Kind("nothing tells what the command did, so it is compared with nothing")
