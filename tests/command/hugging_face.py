"""Transformers' side of hugging_face_test.cpp.

    hugging_face.py CLASSES ORACLES FAMILIES MADE
        checks each CLASSES/<class> with roundtrip.py in ORACLES on CLASSES/<class>.safetensors;
        MADE/<family> for each FAMILIES/<family>/hugging_face.json with models: {sharded,torch}, one random language model, classifier of images or model of speech;
        {inputs,expected}.safetensors
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file


def text_inputs():
    ids = torch.randint(0, 131, (5, 17))
    mask = (torch.arange(17) < torch.tensor([[17], [9], [2], [17], [12]])).long()
    return dict(input_ids=ids, attention_mask=mask, labels=torch.where(mask.bool(), ids, -100))


def image_inputs(config):
    return dict(pixel_values=torch.randn(5, config.num_channels, *config.image_size),
                labels=torch.randint(0, config.num_labels, (5,)))


def spectrum_inputs(config):
    return dict(input_features=torch.randn(5, config.num_mel_bins, 2 * config.max_source_positions),
                labels=torch.randint(0, config.vocab_size, (5, 7)))


def stored(folder):
    """The tensors under the names of files, which differ from those of a model for images."""
    return {name: value for file in folder.glob("*.safetensors") for name, value in load_file(file).items()}


def make(folder, config):
    torch.manual_seed(3)
    folder.mkdir()
    of_images, of_spectra = hasattr(config, "image_size"), hasattr(config, "num_mel_bins")
    auto = (transformers.AutoModelForImageClassification if of_images else
            transformers.AutoModelForSpeechSeq2Seq if of_spectra else
            transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM)
    model = auto.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder / "sharded", max_shard_size="100KB")
    config.save_pretrained(folder / "torch")
    torch.save(stored(folder / "sharded") if of_images else model.state_dict(), folder / "torch" / "pytorch_model.bin")
    inputs = (image_inputs(config) if of_images else
              spectrum_inputs(config) if of_spectra else text_inputs())
    with torch.no_grad():
        outputs = model(**inputs)
    save_file(inputs, folder / "inputs.safetensors")
    save_file(dict(logits=outputs.logits, loss=outputs.loss), folder / "expected.safetensors")
    assert len(list((folder / "sharded").glob("*.safetensors"))) > 1


def open_all(folder, oracles):
    sys.path.insert(0, oracles)
    import roundtrip
    status = 0
    for oracle in sorted(folder.glob("*.safetensors")):
        sys.argv = ["roundtrip.py", str(folder / oracle.stem), oracle.stem, str(oracle)]
        status |= roundtrip.main()
    return status


if __name__ == "__main__":
    for file in sorted(Path(sys.argv[3]).glob("*/hugging_face.json")):
        settings = json.loads(file.read_text())
        if "without" not in settings:
            make(Path(sys.argv[4]) / file.parent.name, transformers.AutoConfig.for_model(**settings["transformers"]))
    sys.exit(open_all(Path(sys.argv[1]), sys.argv[2]))
