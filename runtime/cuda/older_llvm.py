"""LLVM IR of kernels for LLVM 20 and 21, which write other PTX of it than later versions, or none.

They know attributes of kernels as metadata only, without which a kernel may have too many registers for its
threads, and copies a tensor map to where no bulk copy finds it. Asynchronous copies to addresses of 32 bits
end the process there, and so become text of PTX.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# The first version that needs nothing of this.
LATER = (22,)
KERNEL = re.compile(r"define ptx_kernel void @(\w+)\((.*)\) nounwind (.*?)\{")
LIMITS = {
    "maxntidx": re.compile(r'"nvvm\.maxntid"="(\d+)"'),
    "minctasm": re.compile(r'"nvvm\.minctasm"="(\d+)"'),
}
CONSTANT = '"nvvm.grid_constant"'
COPY = re.compile(r"call void @llvm\.nvvm\.cp\.async\.(c[ag])\.shared\.global\.(\d+)(\.s)?\((.*)\)")
NUMBER = re.compile(r"^!(\d+) = ", re.MULTILINE)


def for_older_llvm(text: str) -> str:
    """The module for these versions."""
    first = 1 + max((int(number) for number in NUMBER.findall(text)), default=-1)
    nodes = [node for kernel in KERNEL.finditer(text) for node in annotations_of(kernel)]
    names = [f"!{first + place}" for place in range(len(nodes))]
    lines = [f"{name} = !{{{node}}}" for name, node in zip(names, nodes, strict=True)]
    copied = COPY.sub(copy_by_text, text)
    return "\n".join([copied, f"!nvvm.annotations = !{{{', '.join(names)}}}", *lines, ""])


def annotations_of(kernel: re.Match[str]) -> Iterator[str]:
    """The contents of the nodes of metadata that stand for a kernel's attributes."""
    name, parameters, attributes = kernel.groups()
    for annotation, pattern in LIMITS.items():
        if found := pattern.search(attributes):
            yield f'ptr @{name}, !"{annotation}", i32 {found[1]}'
    numbers = [number for number, text in enumerate(parameters.split(", "), 1) if CONSTANT in text]
    if numbers:
        yield f'ptr @{name}, !"grid_constant", !{{{", ".join(f"i32 {number}" for number in numbers)}}}'


def copy_by_text(call: re.Match[str]) -> str:
    cache, size, may_be_outside, arguments = call.groups()
    read, constraint = (", $2", ",r") if may_be_outside else ("", "")
    text = f"cp.async.{cache}.shared.global [$0], [$1], {size}{read};"
    return f'call void asm sideeffect "{text}", "r,l{constraint},~{{memory}}"({arguments})'
