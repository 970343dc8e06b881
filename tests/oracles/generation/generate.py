#!/usr/bin/env python3
"""Makes ids.json: what transformers' generate() continues prompts with, greedily, for the models of the other oracles.

Each entry has the family, the file with the model's weights and configuration, keys for generation_config.json, and
prompts with the new ids. The models compute in fp64, each prompt alone and without a cache. The best two scores differ by
at least MARGIN at every step, so that the rounding of another implementation cannot choose the other token: of prompts
that are drawn, only such are taken. Of a model with an encoder the prompts are the encoder's: ids, or the first recordings of the
file's own input_features.

    generate.py            writes ids.json
    generate.py --check    makes it again and compares; exit status 1 where it differs
"""

import json
import runpy
import sys
from pathlib import Path

import numpy
import torch
import transformers

FOLDER = Path(__file__).resolve().parent
ORACLES = FOLDER.parent
sys.path.insert(0, str(ORACLES))

import model_oracle  # noqa: E402

MARGIN = 1e-3
NEW_TOKENS = 7
LENGTHS = (2, 5, 3)  # of the prompts
FAMILIES = ("bert", "bloom", "chatglm", "gpt2", "llama", "mistral", "opt", "qwen2", "qwen3", "t5", "whisper")
GENERATES = ("LMHeadModel", "ForCausalLM", "ForConditionalGeneration")
# Of one model of each kind also with these keys, which change what is chosen, or nothing in a greedy search.
KEYS = {
    "gpt2/GPT2LMHeadModel": dict(repetition_penalty=1.7, suppress_tokens=[3, 20], begin_suppress_tokens=[11]),
    "qwen2/Qwen2ForCausalLM": dict(temperature=0.0, top_k=3, top_p=0.0, min_p=0.3, typical_p=0.2, top_h=0.4,
                                   epsilon_cutoff=0.4, eta_cutoff=0.1),
    "t5/T5ForConditionalGeneration": dict(forced_bos_token_id=9, repetition_penalty=1.3, begin_suppress_tokens=[0, 25]),
    "whisper/WhisperForConditionalGeneration": dict(suppress_tokens=[12], begin_suppress_tokens=[33, 9]),
}


def family_of(name):
    """What the family's generate.py passes to model_oracle.main."""
    found = []
    main, model_oracle.main = model_oracle.main, found.append
    sys.path.insert(0, str(ORACLES / name))
    for module in ("cases", "published"):
        sys.modules.pop(module, None)
    try:
        runpy.run_path(str(ORACLES / name / "generate.py"), run_name="__main__")
    except SystemExit:
        pass
    finally:
        model_oracle.main = main
        sys.path.pop(0)
    return found[0]


def model_of(family, case):
    """The model of the file, in fp64."""
    random = numpy.random.Generator(numpy.random.PCG64(list(case.file_name.encode())))
    weights, config_text = model_oracle.checkpoint(model_oracle.random_model(family, case, random))
    model = model_oracle.restored(family, case, weights, config_text, torch.float64, family.exact_attention)
    inputs = {name: torch.from_numpy(value) for name, value in case.inputs(random).items()}
    return model.eval(), inputs


def continued(model, arguments, begin, keys):
    """Returns the new ids, and the smallest difference of the best two scores."""
    config = transformers.GenerationConfig(
        max_new_tokens=NEW_TOKENS, do_sample=False, use_cache=False, output_scores=True, return_dict_in_generate=True,
        eos_token_id=model.config.eos_token_id, pad_token_id=model.config.pad_token_id,
        bos_token_id=getattr(model.config, "bos_token_id", None),
        decoder_start_token_id=getattr(model.config, "decoder_start_token_id", None),
        **keys)
    model.generation_config = config
    with torch.no_grad():
        found = transformers.GenerationMixin.generate(model, **arguments, generation_config=config)
    margins = [scores[0].topk(2).values for scores in found.scores]
    # A forced token leaves the others without a score.
    smallest = min((best - second).item() for best, second in margins if torch.isfinite(second))
    return found.sequences[0, begin:].tolist(), smallest


def prompt_of(case, attempt, length):
    random = numpy.random.Generator(numpy.random.PCG64([*case.file_name.encode(), attempt, length]))
    ids = random.integers(0, 30, length)
    return [int(token) for token in numpy.where(ids < 6, ids + 6, ids)]


def continuations(model, case, inputs, keys):
    """The prompts with their new ids; those of recordings have the number of the sample as prompt."""
    if "input_features" in inputs:
        found = []
        for sample in range(len(LENGTHS)):
            features = inputs["input_features"][sample:sample + 1].double()
            ids, margin = continued(model, dict(input_features=features), 1, keys)
            if margin < MARGIN:
                sys.exit(f"generate.py: {case.file_name}: the margin of sample {sample} is {margin:.1e}")
            found.append(dict(sample=sample, ids=ids))
        return found
    found = []
    for length in LENGTHS:
        for attempt in range(100):
            prompt = prompt_of(case, attempt, length)
            begin = 1 if model.config.is_encoder_decoder else length
            arguments = dict(input_ids=torch.tensor([prompt]), attention_mask=torch.ones(1, length, dtype=torch.long))
            ids, margin = continued(model, arguments, begin, keys)
            if margin >= MARGIN:
                break
        else:
            sys.exit(f"generate.py: {case.file_name}: no prompt of {length} tokens has the margin")
        found.append(dict(prompt=prompt, ids=ids))
    return found


def make():
    entries = []
    for name in FAMILIES:
        family = family_of(name)
        for case in family.cases:
            if not case.model_class.endswith(GENERATES) or case.name == "packed":
                continue
            model, inputs = model_of(family, case)
            if name == "bert" and not model.config.is_decoder:
                continue
            file = f"{name}/{case.file_name}".removesuffix(".safetensors")
            for keys in [{}] + ([KEYS[file]] if file in KEYS else []):
                stop = dict(eos_token_id=model.config.eos_token_id, pad_token_id=model.config.pad_token_id)
                start = getattr(model.config, "decoder_start_token_id", None)
                if start is not None:
                    stop["decoder_start_token_id"] = start
                entries.append(dict(file=file, generation_config=stop | keys,
                                    continuations=continuations(model, case, inputs, keys)))
    return entries


def main():
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    if transformers.__version__ != model_oracle.pinned_version():
        sys.exit(f"generate.py: transformers is {transformers.__version__}, "
                 f"requirements.txt pins {model_oracle.pinned_version()}")
    lines = ",\n".join(json.dumps(entry) for entry in make())
    text, path = f"[\n{lines}\n]\n", FOLDER / "ids.json"
    if "--check" not in sys.argv[1:]:
        path.write_text(text)
        return 0
    if path.read_text() != text:
        sys.exit("generate.py: ids.json differs from what transformers generates")
    print(f"generate.py: ids.json agrees with transformers {transformers.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
