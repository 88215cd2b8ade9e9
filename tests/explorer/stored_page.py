"""Reads the data of a page as its script does."""

import base64
import gzip
import json
import re

import safetensors.numpy


def read_page(html):
    """Header and arrays of a page."""
    stored = re.search(r'<script type="text/plain" id="data">([^<]*)</script>', html)[1]
    content = gzip.decompress(base64.b64decode(stored))
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length])["__metadata__"]
    return json.loads(metadata["gpcanet"]), safetensors.numpy.load(content)
