"""Writes torch_save.bin and torch_save_protocol4.bin, which torch_file_test.cpp reads. Made with torch 2.11.0."""
import collections
import pathlib

import torch

folder = pathlib.Path(__file__).parent
base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
tensors = collections.OrderedDict(
    whole=base,
    tied=base,
    transposed=base.t(),
    sliced=base[1:, 1:3],
    every_second=torch.arange(10, dtype=torch.int16)[1::2],
    expanded=torch.tensor([7], dtype=torch.int64).expand(3, 2),
    parameter=torch.nn.Parameter(torch.tensor([0.5, -0.5])),
    scalar=torch.tensor(3, dtype=torch.int32),
    empty=torch.zeros(0, 4),
    double=torch.tensor([1.5], dtype=torch.float64),
    half=torch.tensor([1.5], dtype=torch.float16),
    bfloat=torch.tensor([1.5], dtype=torch.bfloat16),
    char=torch.tensor([-1], dtype=torch.int8),
    byte=torch.tensor([255], dtype=torch.uint8),
    bool=torch.tensor([True, False]),
)
tensors._metadata = collections.OrderedDict([("", {"version": 1})])
torch.save(tensors, folder / "torch_save.bin")
torch.save({"whole": base, "transposed": base.t()}, folder / "torch_save_protocol4.bin", pickle_protocol=4)
