"""The S3 server that other tests rely on does what they rely on."""

from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.seaweedfs import s3_server


def test_the_server_stores_objects_and_knows_conditional_writes(tmp_path: Path) -> None:
    with s3_server(tmp_path / "s3") as server:
        client = server.client()
        client.create_bucket(Bucket="bucket")
        client.put_object(Bucket="bucket", Key="k", Body=b"first", IfNoneMatch="*")
        with pytest.raises(ClientError, match="PreconditionFailed"):
            client.put_object(Bucket="bucket", Key="k", Body=b"second", IfNoneMatch="*")
        assert client.get_object(Bucket="bucket", Key="k")["Body"].read() == b"first"
        assert server.log.stat().st_size > 0
    with pytest.raises(Exception, match="Could not connect"):
        server.client().list_buckets()
