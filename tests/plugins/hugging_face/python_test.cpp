// Against Python's safetensors and torch, where WEFT_ORACLE_PYTHON names an interpreter that has them.
#include <cstdlib>

#include "support.hpp"
#include "support/oracle_python.hpp"

namespace weft::hugging_face::test {
namespace {

// One script: torch takes seconds to import.
constexpr const char* kScript = R"(
import json, sys, zipfile, torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

folder = sys.argv[1]
one = load_file(folder + "/one/model.safetensors")
archive = torch.load(folder + "/weft.bin", weights_only=True)
mapped = torch.load(folder + "/weft.bin", weights_only=True, mmap=True)
index = json.load(open(folder + "/sharded/model.safetensors.index.json"))
sharded = {}
for name, file in index["weight_map"].items():
    with safe_open(folder + "/sharded/" + file, "pt") as shard:
        assert shard.metadata() == {"format": "pt"}
        sharded[name] = shard.get_tensor(name)
assert len(one) == 15 and one["empty"].shape == (0, 4) and one["scalar"].shape == ()
assert index["metadata"]["total_size"] == sum(t.nbytes for t in one.values())
def as_bytes(tensor):
    flat = tensor.contiguous().reshape(-1)
    return flat.byte() if flat.dtype == torch.bool else flat.view(torch.uint8)

for other in (archive, mapped, sharded):
    assert other.keys() == one.keys()
    for name, tensor in one.items():
        assert other[name].dtype == tensor.dtype and other[name].shape == tensor.shape, name
        assert torch.equal(as_bytes(other[name]), as_bytes(tensor)), name
assert zipfile.ZipFile(folder + "/weft.bin").testzip() is None

save_file(one, folder + "/python.safetensors", metadata={"format": "pt"})
torch.save(one, folder + "/python.bin")


torch.save(one, folder + "/old.bin", _use_new_zipfile_serialization=False)
torch.save(one, folder + "/old.pth", _use_new_zipfile_serialization=False, pickle_protocol=4)
)";

// What the message about a file of old PyTorch advises.
constexpr const char* kConvert =
    R"(torch.save(torch.load(path, map_location="cpu", weights_only=True), path))";

TEST(Python, ReadsWhatIsWrittenAndWritesTheSame) {
  WEFT_NEEDS_ORACLE();
  TemporaryFolder folder;
  save(folder / "one", varied_entries());
  save(folder / "sharded", varied_entries(), {.shard = true, .size_per_shard = 1});
  save(folder / "weft.bin", varied_entries());
  const auto run = [&](const std::string& script) {
    write_file(folder / "script.py", script);
    const std::string command =
        "'" + weft::test::oracle_python() + "' '" + (folder / "script.py") + "' '" + folder.path() + "' 2>&1";
    ASSERT_EQ(std::system(command.c_str()), 0);
  };
  run(kScript);
  EXPECT_EQ(read_file(folder / "one/model.safetensors"), read_file(folder / "python.safetensors"));
  expect_holds(folder / "python.bin", varied_entries());

  for (const char* name : {"old.bin", "old.pth"})
    expect_error(WEFT_UNIMPLEMENTED, {name, "before PyTorch 1.6", kConvert},
                 [&] { CheckpointReader{folder / name}; });
  run("import sys, torch\npath = sys.argv[1] + '/old.bin'\n" + std::string(kConvert));
  expect_holds(folder / "old.bin", varied_entries());
}

}  // namespace
}  // namespace weft::hugging_face::test
