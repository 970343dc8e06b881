#!/usr/bin/env python3
"""Rules of the tree that a text search can hold: names that must not appear, homes of facts, directions of includes.

  check_rules.py ROOT     every offence with its file, line and rule; exit code 1 if there is one
  check_rules.py --prove  each rule finds the offence that is written beside it
"""
import os
import re
import sys
import tempfile
from dataclasses import dataclass

# The libraries of the engine, each of which may include those before it.
LIBRARIES = "plans runtime data nn parallel train api contract command".split()
ENGINE = r"core/(" + "|".join(LIBRARIES) + r")/"
SOURCES = ("c", "h", "cpp", "hpp", "cuh", "cu")
TOP = ("sdk", "core", "kernels", "plugins", "policies", "samples", "tests", "packaging", "cmake")
CORE = r"(core|kernels|sdk/(?!docs/|templates/))"
CODE = r"(sdk|core|kernels|plugins|policies|samples)/"
# Parts of identifiers ("OPTModel", "t5_block") and whole words alike; the long names anywhere.
FAMILY = (r"(?i:gpt|llama|bert|bloom|whisper|chatglm)|ViT|(?<![A-Za-z])(opt|OPT|t5|T5|vit)(?![a-z0-9])"
          r"|(Opt|OPT|T5)(?=Model|For|Config|Attention|Block)")
# Hugging Face calls a scaling of rotary positions "llama3".
ROPE_TYPES = r"core/nn/layers/rotary\.cpp"
# Kinds of parts that tokenizer.json names after the families that had them first; and tables of random letters.
TOKENIZER_KINDS = r"core/tokenizer/"
RANKS = (r"(?i:communicator|c10d|process_?group|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|all_?ranks)"
         r"|\b(local_|this_)?ranks?\b|\b[Ww]orld(_size)?\b|\bweft_comm\b|\bmesh\b|\b[a-z]+_group\b")


@dataclass
class Rule:
    name: str
    where: str      # files, as a pattern of their path
    forbidden: str  # in a line
    offence: tuple  # a file and a line that break it
    but: str = "(?!)"  # files where it may stand


MESH = r"core/runtime/mesh/|core/plans/(axes/|include/weft/axes\.hpp)"
# What runs on every device: it asks core/runtime/device where a tensor is, for random numbers and for autocast.
ON_DEVICES = r"(" + ENGINE + r"|(sdk/(include|kit)|plugins|policies)/)"
VALUES = r"sdk/include/weft/torch/values\.hpp"
DEVICE = r"core/runtime/(device/|include/weft/device_kind\.hpp)|plugins/cuda/|" + VALUES
# Where tensors in host memory are read: files and texts are made of them, the host's kernels and rules work on them.
READS_HOST_MEMORY = (r"core/(runtime/(device|comm)/|data/(loader|text|images|sound|questions|step_log)/|api/application/objects\."
                     r"|data/files/(fingerprint|format)\.|train/checkpoint/model_files\.|nn/dispatch/host_\w+\."
                     r"|nn/layers/(activation|alibi|fused_attention|initialise|layers|rotary)\.|nn/models/answer_metrics\."
                     r"|train/(optim/rules_factored|training/digest)\.)|plugins/cuda/(\w*operators|launch)\.|" + VALUES)
TORCH = r'#\s*include\s*[<"](torch|ATen|c10|caffe2)/'
RULES = [
    Rule("the core names no strategy", CORE, r"(?i)torch_ddp|torch_fsdp|low_level_zero|gemini|hybrid_parallel",
         ("core/host/x.cpp", "// as Torch_DDP does")),
    Rule("the core names no model family", CORE, FAMILY, ("core/api/include/weft/x.hpp", "class GPT2Block;"),
         but=ROPE_TYPES + "|" + TOKENIZER_KINDS),
    Rule("the core names no model family (short names)", CORE, FAMILY, ("kernels/x.cpp", "void t5_bias();"),
         but=ROPE_TYPES + "|" + TOKENIZER_KINDS),
    Rule("in the core, token models alone know the names of their fields", r"core/", r"input_ids|token_type_ids",
         ("core/api/booster/x.cpp", 'batch.find("input_ids")'), but=r"core/(data|nn)/include/weft/nn/token_\w+\.hpp"),
    Rule("model libraries know no rank and no group", r"policies/.*\.[ch]pp$", RANKS,
         ("policies/a/x.cpp", "if (world_size > 1) all_reduce(x);")),
    Rule("c10d lives in core/runtime/comm", CODE, r"c10d::|/c10d/", ("core/api/booster/x.cpp", "c10d::Work* w;"),
         but=r"core/(runtime/comm/|torch_pch\.hpp|runtime/include/weft/device_kind\.hpp)|plugins/cuda/"),
    Rule("communication backends are named in core/runtime/comm", ON_DEVICES, r"ProcessGroup(Gloo|NCCL)|\"(gloo|nccl)\"",
         ("core/api/booster/x.cpp", 'if (backend == "nccl") split();'),
         but=DEVICE + r"|core/(runtime/comm/|torch_pch\.hpp|command/check\.cpp)"),
    Rule("device types, generators and autocast are asked of core/runtime/device", ON_DEVICES,
         r"\bk(CPU|CUDA|PrivateUse1)\b|\bDeviceType\b|DispatchKey::\w*(CPU|CUDA|PrivateUse1)"
         r"|\bis_(cpu|cuda|privateuseone)\(|\.(cpu|cuda)\(\)|hasCUDA|CPUGenerator|defaultGenerator|manual_seed|\bautocast::"
         r"|\b(at|c10|torch)::(cuda|accelerator)::|\b(to|Device|device)\(\s*\"(cpu|cuda)",
         ("plugins/a/x.cpp", "if (x.is_cpu()) run(x);"), but=DEVICE),
    Rule("whoever reads a tensor's memory asks core/runtime/device", ON_DEVICES,
         r"\b(\w+_)?data_ptr(<|\(\))|(\.|->)item(<|\(\))|\b\w*accessor\w*<|\.storage\(\)\.(mutable_)?data\(",
         ("core/train/training/x.cpp", "parts += loss.item<double>();"), but=READS_HOST_MEMORY),
    Rule("libraries are opened in core/base/dynamic_library.cpp", CODE, r"boost(/|::)dll|\bdl(m?open|v?sym)\s*\(",
         ("core/host/x.cpp", "void* f = dlsym(library, name);"), but=r"core/base/dynamic_library\.cpp|sdk/templates/"),  # their tests load plugins
    Rule("the environment is read in core/base/environment.cpp", CODE, r"\b((secure_)?getenv|setenv|putenv|environ)\b",
         ("plugins/a/x.cpp", 'getenv("HOME")'), but=r"core/base/environment\.cpp|core/host/launch/"),
    Rule("ranks gather texts through comm/agreement.hpp, where one that fails ends all", ENGINE,
         r"\bgather_text\(", ("core/train/checkpoint/x.cpp", "ranks.gather_text(described.dump());"),
         but=r"core/runtime/(comm/|include/weft/world\.hpp)"),
    Rule("nobody spells a combination of axes: axes.hpp, core/plans/axes and core/runtime/mesh name the groups", CODE,
         r"WEFT_AXIS_\w+\)? [|&]=? (?!1\b)|[|&]=? ~?\(?(1u? << )?WEFT_AXIS_",
         ("plugins/a/x.cpp", "uint32_t samples = 1u << WEFT_AXIS_DATA | 1u << WEFT_AXIS_REPLICA;"),
         but=MESH),
    Rule("the core combines axes in axes.hpp, core/plans/axes and core/runtime/mesh", r"core/",
         r"(Mesh::\w+\(\)|\b\w*axes_?(\(\w*\))?) [|&]=? | [|&]=? ~?\(?(Mesh::\w+\(|[\w.>-]*axes\b)",
         ("core/train/optim/x.cpp", "return shard.partition_axes & ~Mesh::tensor();"), but=MESH),
    Rule("the mesh says who speaks for others", r"core/", r"place\(.*\)\.rank == 0",
         ("core/train/training/x.cpp", "return mesh.place(Mesh::tensor()).rank == 0;"), but=MESH),
    Rule("no path of one machine", r"", r"(?<![\w.-])/(work|farm)/|\.\./shared", ("sdk/docs/x.md", "see /" + "work/x")),
    Rule("no header includes all of torch", CODE + r".*\.(h|hpp)$", r"torch/(torch|all|extension)\.h",
         ("core/nn/include/weft/nn/x.hpp", "#include <torch/torch.h>"), but=r"core/torch_pch\.hpp"),
    Rule("of public headers only weft/nn includes torch's Module", r"(sdk|sdk/kit|core/\w+)/include/",
         r"#\s*include\s*<torch/(?!csrc/stable/|headeronly/)",
         ("core/api/include/weft/x.hpp", "#include <torch/nn/module.h>"), but=r"core/\w+/include/weft/nn/"),
    Rule("weft/nn includes torch/nn/module.h at most", r"core/\w+/include/weft/nn/", r"<torch/(?!nn/module\.h)",
         ("core/nn/include/weft/nn/x.hpp", "#include <torch/nn/modules/linear.h>")),
    Rule("public headers include ATen/core/Tensor.h and single operations at most", r"(sdk|sdk/kit|core/\w+)/include/",
         r"#\s*include\s*<ATen/(?!core/Tensor\.h|ops/)", ("sdk/include/weft/torch/x.hpp", "#include <ATen/ATen.h>")),
    Rule("C headers of the SDK need stddef.h and stdint.h only", r"sdk/include/.*\.h$",
         r"#\s*include\s*<(?!stddef\.h>|stdint\.h>)", ("sdk/include/weft/x.h", "#include <string.h>")),
    Rule("shard policies in C include weft's C headers only", r"policies/.*\.c$", r"#\s*include(?!\s*<weft/\w+\.h>)",
         ("policies/a/policy.c", "#include <string.h>")),
    Rule("bindings, optimizers and checkpoints know neither hooks nor steps",
         r"core/train/(optim/|checkpoint/|training/(bindings|handles|part|check_strategy|publish|strategy|generators)\.)",
         r'#\s*include "training/(training|hooks|forward_record|step)\.hpp"',
         ("core/train/optim/x.cpp", '#include "training/training.hpp"')),
    Rule("hooks know no steps", r"core/train/training/\w*(hooks|forward_record)\.",
         r'#\s*include "training/(training|step)\.hpp"',
         ("core/train/training/hooks.cpp", '#include "training/step.hpp"')),
    Rule("libweft, the command, templates and schedules know no libtorch", r"core/(base|host|cli|jinja|plans)/", TORCH,
         ("core/host/x.cpp", "#include <ATen/core/Tensor.h>")),
]

PUBLIC = [f"core/{library}/include/" for library in ("tokenizer", *LIBRARIES)]


def engine_directions():
    """A library of the engine includes itself and those before it, its public headers public headers alone. The build holds the same.
    The engine shares with the host the private C tables and the launch."""
    shared = ["sdk/include/", "core/base/", "core/tokenizer/", "core/jinja/", "kernels/", "core/torch_pch.hpp", "core/host/engine_table.h",
              "core/host/application_functions.h", "core/host/loading.h", "core/host/signals.h", "core/host/launch/"]
    for index, library in enumerate(LIBRARIES):
        below = LIBRARIES[:index + 1]
        yield f"core/{library}/include/", ["sdk/include/", "core/tokenizer/include/", *(f"core/{name}/include/" for name in below)]
        yield f"core/{library}/", shared + [f"core/{name}/" for name in below]


# Folder of a source: what it may include.
DIRECTIONS = [
    (r"sdk/include/", ["sdk/include/"]),
    (r"sdk/kit/", ["sdk/include/", "sdk/kit/"]),
    (r"core/base/", ["sdk/include/", "core/base/"]),
    (r"core/host/", ["sdk/include/", "core/base/", "core/host/"]),
    (r"core/cli/", ["sdk/include/", "core/base/", "core/host/", "core/cli/"]),
    (r"core/tokenizer/include/", ["sdk/include/", "core/tokenizer/include/"]),
    (r"core/tokenizer/", ["sdk/include/", "core/base/", "core/tokenizer/"]),
    *engine_directions(),
    (r"core/jinja/", ["sdk/include/", "core/base/", "core/tokenizer/", "core/jinja/"]),
    (r"kernels/", ["kernels/"]),
    (r"plugins/cuda/", ["sdk/include/", "core/runtime/include/weft/device_", "core/nn/include/weft/device_", "kernels/", "plugins/cuda/"]),
    (r"plugins/(\w+)/", ["sdk/include/", "sdk/kit/include/", "plugins/{}/"]),
    (r"policies/(\w+)/", ["sdk/include/", *PUBLIC, "policies/{}/"]),
    (r"sdk/templates/(\w+)/", ["sdk/include/", "sdk/kit/include/", *PUBLIC, "sdk/templates/{}/"]),
    (r"samples/(\w+)/", ["sdk/include/", "sdk/kit/include/", *PUBLIC, "samples/{}/"]),
]
DIRECTION = "dependencies point one way (sdk <- core <- applications; plugins on the sdk alone)"
ROOTS = ("sdk/include", "sdk/kit/include", *(p.rstrip("/") for p in PUBLIC), "core", *(f"core/{l}" for l in LIBRARIES), "kernels", "")


def files(root):
    for top in TOP:
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = [f for f in folders if f not in ("build", "__pycache__") and not f.startswith(".")]
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), root)
    for name in os.listdir(root):
        if os.path.isfile(os.path.join(root, name)) and name != ".git":
            yield name


def resolve(root, path, header):
    """The file of this tree that an include means, or None: it is the compiler's or another library's."""
    for folder in (os.path.dirname(path), *ROOTS):
        candidate = os.path.normpath(os.path.join(folder, header))
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def direction_offence(root, path, line):
    include = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
    if not include:
        return False
    for pattern, allowed in DIRECTIONS:
        place = re.match(pattern, path)
        if place:
            target = resolve(root, path, include[1])
            return target is not None and not target.startswith(tuple(a.format(*place.groups()) for a in allowed))
    return False


def offences(root):
    for path in sorted(files(root)):
        rules = [r for r in RULES if re.match(r.where, path) and not re.match(r.but, path)]
        rules = [(r, re.compile(r.forbidden)) for r in rules]
        try:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                lines = file.read().splitlines()
        except UnicodeDecodeError:
            continue  # data, not text
        for number, line in enumerate(lines, 1):
            for rule, forbidden in rules:
                if forbidden.search(line):
                    yield path, number, rule.name, line.strip()
            if path.endswith(SOURCES) and direction_offence(root, path, line):
                yield path, number, DIRECTION, line.strip()


def prove():
    with tempfile.TemporaryDirectory() as root:
        def write(path, text):
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "a", encoding="utf-8") as file:
                file.write(text + "\n")

        wanted = set()
        for index, rule in enumerate(RULES):
            path, line = rule.offence
            path = os.path.join(os.path.dirname(path), f"{index}_{os.path.basename(path)}")
            write(path, line)
            wanted.add((path, rule.name))
        for path, header in (("plugins/a/y.cpp", "base/text.hpp"), ("plugins/a/z.cpp", "../b/b.hpp"),
                             ("core/host/y.cpp", "weft/booster.hpp"), ("kernels/y.cpp", "weft/types.h"),
                             ("core/nn/include/weft/y.hpp", "base/text.hpp"), ("core/data/text/y.cpp", "training/bindings.hpp"),
                             ("core/runtime/include/weft/y.hpp", "weft/booster.hpp"), ("policies/a/y.cpp", "host/loader.hpp"),
                             ("sdk/kit/y.cpp", "weft/booster.hpp"), ("sdk/include/weft/torch/y.hpp", "weft/kit/y.hpp")):
            write(path, f'#include "{header}"')
            wanted.add((path, DIRECTION))
        for path in ("core/base/text.hpp", "core/host/loader.hpp", "core/api/include/weft/booster.hpp", "core/train/training/bindings.hpp",
                     "sdk/include/weft/types.h", "sdk/kit/include/weft/kit/y.hpp", "plugins/b/b.hpp"):
            write(path, "#pragma once")
        write("core/host/innocent.cpp", "#include <optional>  // adopt an option; vital bits, at5, rewritten\n")
        found = {(path, rule) for path, _, rule, _ in offences(root)}
    for path, rule in sorted(wanted - found):
        print(f"not found: {path}: {rule}")
    innocent = sorted((path, rule) for path, rule in found if "innocent" in path)
    for path, rule in innocent:
        print(f"wrongly found: {path}: {rule}")
    print(f"{len(wanted & found)} of {len(wanted)} offences found")
    return 1 if wanted - found or innocent else 0


def main():
    if sys.argv[1:] == ["--prove"]:
        return prove()
    if len(sys.argv) != 2 or not os.path.isdir(os.path.join(sys.argv[1], "sdk")):
        sys.exit(__doc__)
    count = 0
    for path, number, rule, line in offences(sys.argv[1]):
        print(f"{path}:{number}: {rule}: {line[:160]}")
        count += 1
    print(f"{count} offences against {len(RULES) + 1} rules")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
