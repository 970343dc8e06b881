"""The command of a family's generate.py: oracle tensors from Hugging Face transformers, one file a case:

    weight.<name>      a tensor of the checkpoint, under the name save_pretrained gives it (a tied one once)
    input.<name>       an argument of forward; input.cotangent of a base model weighs its last_hidden_state, and
                       that of the first position, as far as it goes, its pooler_output, if it has one
    output.<name>      the tensors that forward returned; loss is the language (or only) loss, mc_loss that of
                       the choices
    grad.<name>        the gradient of loss + mc_loss, for a base model of the weighted outputs;
                       exactly 0 where it cancels, as for a bias before a softmax over choices or positions
    defined.<output>   shape of the mask of the last stack: 0 where a position attends to nothing. Hugging Face's own kernels
                       differ there (eager: the mean of all values; fused: zeros), so it is not to be compared

and in the metadata: class, case, transformers (its version), config (the text of config.json), and noise: how far the
model in bf16 and in fp16 is from these values, [outputs, gradients], as the root of the mean square of all differences
relative to that of all values. Outputs of positions that attend to nothing do not count.

Weights are fp32; the computation is fp64, stored as fp32, so that the files do not depend on the processor.
Two more runs must agree with it, relative to the largest value of each tensor (of all gradients, where a
gradient is 0): fp32 eager within 3e-6 for outputs and 2e-5 for gradients, its noise (measured over GPT-2's
cases: at most 1e-6 and 3.4e-6; see --noise), and fp64 with scaled_dot_product_attention.

    generate.py            writes the files that are missing or differ
    generate.py --check    makes them again and compares with the files; exit status 1 where they differ
    generate.py --noise    prints fp32 eager against fp64 by case
"""

import argparse
import itertools
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import numpy
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file

CHECK_TOLERANCE = 1e-6
NOISE_OF_OUTPUTS = 3e-6
NOISE_OF_GRADIENTS = 2e-5
CANCELLED = 1e-12  # fp64: below this a gradient is rounding only
HALF_TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
NOISE_FACTOR = 2  # between processors, whose kernels round at other places


@dataclass(frozen=True)
class Family:
    title: str
    folder: Path
    config_class: type
    base_config: dict
    cases: list
    is_norm: Callable[[str], bool]  # of the name of a weight
    # Takes out of a model what rounds to fp32 whatever its type.
    make_exact: Callable[[torch.nn.Module], None]
    exact_attention: str = "eager"  # an attention that rounds nothing to fp32
    other_attention: str = "sdpa"  # another attention that must agree; "eager" where there is none
    # Changes a model that was just made, before it gets its weights.
    adjust: Callable[[torch.nn.Module], None] = lambda model: None
    # False where all kinds of attention agree on what a position gives that attends to nothing.
    has_undefined: bool = True
    matrix_scale: float = 0.4  # the standard deviation of the weights of matrices
    # Maps the tensors and metadata of a file to those of a family whose model transformers has under other names.
    translate: Callable[[dict, dict], tuple] = lambda tensors, metadata: (tensors, metadata)
    # Returns arguments of forward that are no tensors.
    arguments: Callable[[object], dict] = lambda config: {}
    # Returns the name under which save_pretrained writes a parameter of the model.
    stored_name: Callable[[str], str] = lambda name: name


def pinned_version():
    for line in (Path(__file__).resolve().parent / "requirements.txt").read_text().splitlines():
        if line.startswith("transformers=="):
            return line.split("==")[1].strip()
    raise SystemExit("generate.py: requirements.txt does not pin transformers")


def random_model(family, case, random):
    """A model with every parameter drawn anew: no bias is 0, no norm is 1."""
    config = family.config_class(**(family.base_config | case.config))
    model = getattr(transformers, case.model_class)(config)
    family.adjust(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            draw = torch.from_numpy(random.standard_normal(tuple(parameter.shape))).float()
            is_norm_weight = name.endswith("weight") and family.is_norm(name)
            others = family.matrix_scale if parameter.dim() == 2 else 0.3
            scale = 0.2 if is_norm_weight or name.endswith("bias") else others
            parameter.copy_(draw * scale + (1.0 if is_norm_weight else 0.0))
    return model


def checkpoint(model):
    """What save_pretrained writes: the tensors and the text of config.json."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(f"{folder}/model.safetensors"), (Path(folder) / "config.json").read_text()


def restored(family, case, weights, config_text, dtype, attention):
    config = family.config_class(**json.loads(config_text))
    model = getattr(transformers, case.model_class)._from_config(config, attn_implementation=attention)
    # What from_pretrained keeps in fp32 where the dtype is fp16.
    kept = set(model._keep_in_fp32_modules or []) if dtype == torch.float16 else set()
    family.adjust(model)
    names = {family.stored_name(name): name for name in model.state_dict()}
    weights = {names.get(name, name): value for name, value in weights.items()}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    if unexpected or not set(missing) <= set(model.all_tied_weights_keys):
        raise SystemExit(f"generate.py: {case.file_name}: missing {missing}, unexpected {unexpected}")
    if dtype == torch.float64:
        family.make_exact(model)
    for name, value in itertools.chain(model.named_parameters(), model.named_buffers()):
        if not kept & set(name.split(".")) and value.is_floating_point():
            value.data = value.data.to(dtype)
    return model.train()


def run(family, model, inputs, dtype):
    """Returns the outputs and the gradient of every parameter that is trained."""
    arguments = {name: value.to(dtype if value.is_floating_point() else value.dtype)
                 for name, value in inputs.items()}
    cotangent = arguments.pop("cotangent", None)
    result = {name: value for name, value in model(**arguments, **family.arguments(model.config)).items()
              if isinstance(value, torch.Tensor)}
    if cotangent is not None:
        total = (cotangent * result["last_hidden_state"]).sum()
        if "pooler_output" in result:
            pooled = result["pooler_output"]
            total = total + (cotangent[:, 0, : pooled.shape[1]] * pooled).sum()
    else:
        total = sum(value for name, value in result.items() if name.endswith("loss"))
    total.backward()
    gradients = {family.stored_name(name): parameter.grad for name, parameter in model.named_parameters()
                 if parameter.requires_grad}
    return {name: value.detach() for name, value in result.items()}, gradients


def attended(inputs, window=None):
    """(..., T): 0 where a position and all before it (of its window) are masked; None where there is none."""
    mask = inputs.get("decoder_attention_mask", inputs.get("attention_mask"))
    if mask is None:
        return None
    count = mask.cumsum(-1)
    if window is not None:
        count = count - torch.nn.functional.pad(count, (window, 0))[..., :count.shape[-1]]
    defined = (count > 0).long()
    return None if defined.all() else defined


def difference(found, wanted, defined=None, scale_of_zero=1.0):
    """Largest difference relative to the largest wanted value, over the positions that are defined."""
    found, wanted = found.double(), wanted.double()
    if defined is not None:
        found, wanted = found[defined.bool()], wanted[defined.bool()]
    scale = wanted.abs().max().item() or scale_of_zero
    return (found - wanted).abs().max().item() / scale


def largest_differences(found, wanted, defined):
    """found, wanted: (outputs, gradients) of two runs; `defined` has the outputs with undefined positions."""
    outputs = max(difference(found[0][name], wanted[0][name], defined.get(name)) for name in wanted[0])
    largest = max(value.abs().max().item() for value in wanted[1].values())
    gradients = max(difference(found[1][name], wanted[1][name], scale_of_zero=largest) for name in wanted[1])
    return outputs, gradients


def mean_difference(found, wanted, defined):
    """The root of the mean square of the differences relative to that of the wanted values; of tensors, not of scalars."""
    squares, total = 0.0, 0.0
    for name, value in wanted.items():
        if value.dim() == 0:
            continue
        mask = defined[name].bool() if name in defined else slice(None)
        squares += (found[name].double() - value.double())[mask].square().sum().item()
        total += value.double()[mask].square().sum().item()
    return (squares / total) ** 0.5


def make(family, case):
    """Returns the tensors, the metadata and the noise (outputs, gradients) of fp32 eager."""
    random = numpy.random.Generator(numpy.random.PCG64(list(case.file_name.encode())))
    weights, config_text = checkpoint(random_model(family, case, random))
    inputs = {name: torch.from_numpy(value) for name, value in case.inputs(random).items()}
    inputs = {name: value.float() if value.is_floating_point() else value for name, value in inputs.items()}

    def results(dtype, attention):
        return run(family, restored(family, case, weights, config_text, dtype, attention), inputs, dtype)

    outputs, gradients = results(torch.float64, family.exact_attention)
    gradients = {name: value if value.abs().max() > CANCELLED else torch.zeros_like(value)
                 for name, value in gradients.items()}
    exact = outputs, gradients
    mask = attended(inputs, json.loads(config_text).get("sliding_window"))
    seeing = {} if mask is None else {
        name: mask for name, value in outputs.items() if value.shape[: mask.dim()] == mask.shape}
    defined = seeing if family.has_undefined else {}
    noise = largest_differences(results(torch.float32, "eager"), exact, defined)
    kernels = largest_differences(results(torch.float64, family.other_attention), exact, defined)
    for what, found in (("fp32 eager", noise), ("scaled_dot_product_attention", kernels)):
        if not (found[0] <= NOISE_OF_OUTPUTS and found[1] <= NOISE_OF_GRADIENTS):
            raise SystemExit(f"generate.py: {case.file_name}: {what} differs from fp64 by "
                             f"{found[0]:.1e} (outputs) and {found[1]:.1e} (gradients)")

    halves = {}
    for name, dtype in HALF_TYPES.items():
        found = results(dtype, "eager")
        halves[name] = [float(f"{mean_difference(found[0], outputs, seeing):.2g}"),
                        float(f"{mean_difference(found[1], gradients, {}):.2g}")]

    tensors = {}
    groups = dict(weight=weights, input=inputs, output=outputs, grad=gradients, defined=defined)
    for prefix, group in groups.items():
        for name, value in group.items():
            value = value.float() if value.is_floating_point() else value
            tensors[f"{prefix}.{name}"] = value.clone().contiguous()
    metadata = {"class": case.model_class, "case": case.name, "transformers": transformers.__version__,
                "config": config_text, "noise": json.dumps(halves)}
    return *family.translate(tensors, metadata), noise


def disagreement(path, tensors, metadata):
    """One line that says in what the file differs, or None."""
    if not path.is_file():
        return "no such file"
    with safe_open(path, framework="pt") as file:
        for name in metadata.keys() - {"noise"}:
            if (file.metadata() or {}).get(name) != metadata[name]:
                return f"metadata '{name}' differs"
        stored, made = (json.loads(text) for text in ((file.metadata() or {}).get("noise", "{}"), metadata["noise"]))
        if stored.keys() != made.keys() or not all(
                one <= NOISE_FACTOR * other and other <= NOISE_FACTOR * one
                for dtype in made for one, other in zip(stored[dtype], made[dtype], strict=True)):
            return f"the noise in half precision is {stored}, made {made}"
        if set(file.keys()) != set(tensors):
            return f"these tensors are in one only: {sorted(set(file.keys()) ^ set(tensors))}"
        for name, value in tensors.items():
            stored = file.get_tensor(name)
            if stored.dtype != value.dtype or stored.shape != value.shape:
                return (f"{name}: stored {stored.dtype} {list(stored.shape)}, "
                        f"made {value.dtype} {list(value.shape)}")
            if not difference(stored, value) <= CHECK_TOLERANCE:
                return f"{name}: differs by {difference(stored, value):.1e} of its largest value"
    return None


def main(family):
    parser = argparse.ArgumentParser(description=f"{family.title} oracle tensors from Hugging Face transformers")
    parser.add_argument("--check", action="store_true", help="compare with the files, write nothing")
    parser.add_argument("--noise", action="store_true", help="print fp32 eager against fp64, write nothing")
    options = parser.parse_args()
    if transformers.__version__ != pinned_version():
        sys.exit(f"generate.py: transformers is {transformers.__version__}, "
                 f"requirements.txt pins {pinned_version()}")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)

    failures = [f"{path.name}: no case makes it" for path in sorted(family.folder.glob("*.safetensors"))
                if path.name not in {case.file_name for case in family.cases}]
    for case in family.cases:
        tensors, metadata, noise = make(family, case)
        path = family.folder / case.file_name
        problem = disagreement(path, tensors, metadata)
        if options.noise:
            print(f"{case.file_name}: outputs {noise[0]:.1e}, gradients {noise[1]:.1e}")
        elif options.check:
            failures += [f"{case.file_name}: {problem}"] if problem else []
        elif problem:
            save_file(tensors, path, metadata=metadata)
            print(f"{case.file_name}: written, {path.stat().st_size} bytes ({problem})")
    for failure in failures:
        print(f"generate.py: {failure}", file=sys.stderr)
    if options.check and not failures:
        print(f"generate.py: {len(family.cases)} files agree with transformers {transformers.__version__}")
    return 1 if failures else 0

