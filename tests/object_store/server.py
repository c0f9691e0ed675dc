#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A server with the protocol of S3 (moto) that checks signatures, for tests/object_store/server.rs.

Prints its URL, key and secret on a line, then executes a command for each line on stdin, and answers with a line:
  save BUCKET DIR       downloads every object into DIR
  count BUCKET/PREFIX   the number of rows of the Parquet files, read by pyarrow
  sum BUCKET/PREFIX COLUMN   the sum of a column
Ends with stdin.
"""
import json
import logging
import pathlib
import sys
import urllib.request

import boto3
import pyarrow.compute
import pyarrow.dataset
import pyarrow.fs
from moto.server import ThreadedMotoServer

logging.disable()
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
URL = "http://%s:%s" % server.get_host_and_port()
REGION = "us-east-1"


def client(service, key, secret):
    return boto3.client(
        service, endpoint_url=URL, region_name=REGION, aws_access_key_id=key, aws_secret_access_key=secret
    )


iam = client("iam", "any", "any")
iam.create_user(UserName="writer")
keys = iam.create_access_key(UserName="writer")["AccessKey"]
key, secret = keys["AccessKeyId"], keys["SecretAccessKey"]
actions = ["s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]}
iam.put_user_policy(UserName="writer", PolicyName="writer", PolicyDocument=json.dumps(policy))
for bucket in ["fleet", "serve"]:
    client("s3", "any", "any").create_bucket(Bucket=bucket)
# From here on, keys and signatures are checked.
request = urllib.request.Request(f"{URL}/moto-api/reset-auth", b"0", {"Content-Type": "text/plain"})
urllib.request.urlopen(request).read()
print(URL, key, secret, flush=True)

s3 = client("s3", key, secret)
filesystem = pyarrow.fs.S3FileSystem(
    endpoint_override=URL, access_key=key, secret_key=secret, region=REGION, force_virtual_addressing=False
)


def save(bucket, directory):
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for item in page.get("Contents", []):
            path = pathlib.Path(directory) / item["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(bucket, item["Key"], str(path))
    return "saved"


def table(name):
    return pyarrow.dataset.dataset(name, filesystem=filesystem, partitioning="hive")


COMMANDS = {
    "save": save,
    "count": lambda name: str(table(name).count_rows()),
    "sum": lambda name, column: str(pyarrow.compute.sum(table(name).to_table(columns=[column])[column]).as_py()),
}
for line in sys.stdin:
    command, *arguments = line.split()
    print(COMMANDS[command](*arguments), flush=True)
