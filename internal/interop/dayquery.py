"""Plan a query for one partition with PyIceberg, and say what that took.

Standard input is one JSON object: {"catalog": {property: value}, "table": name, "column": name, "value": value}. One JSON object is printed:
{"opens": files opened for that, "cpu_seconds": processor time of the planning}.
"""

import json
import sys
import time
import warnings

from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo
from pyiceberg.io import pyarrow

warnings.filterwarnings("ignore")

job = json.load(sys.stdin)
table = load_catalog("default", **job["catalog"]).load_table(job["table"])
opens, original = 0, pyarrow.PyArrowFile.open


def counted(self, *args, **named):
    global opens
    opens += 1
    return original(self, *args, **named)


pyarrow.PyArrowFile.open = counted
begin = time.process_time()
list(table.scan(row_filter=EqualTo(job["column"], job["value"])).plan_files())
spent = time.process_time() - begin
print(json.dumps({"opens": opens, "cpu_seconds": spent}))
