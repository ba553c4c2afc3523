"""Runs small programs in processes of their own: what a process does once cannot be tried within the tests' one."""

import asyncio
import sys
from collections.abc import Mapping


async def ended(script: str, endpoint: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """What a program, which finds `endpoint` in its arguments and ends soon by itself, wrote to stdout and stderr."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, endpoint),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        async with asyncio.timeout(60):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, err.decode()
    return out.decode(), err.decode()
