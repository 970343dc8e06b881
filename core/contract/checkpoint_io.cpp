#include "contract/checkpoint_io.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/error_sink.hpp"
#include "base/text.hpp"
#include "box/box.hpp"
#include "contract/format_faults.hpp"
#include "contract/kills.hpp"

namespace weft::contract {

namespace {

namespace fs = std::filesystem;
using checkpoint::Entry;
using checkpoint::Reader;
using checkpoint::Writer;

constexpr int64_t kRows = FormatTrial::kRows, kColumns = FormatTrial::kColumns;

// Divides a box into random ones, in a random order.
std::vector<Box> random_parts(const Box& whole, std::mt19937_64& random) {
  std::vector<Box> parts = {whole};
  for (int cuts = 0; cuts < 6 && !whole.extent.empty(); ++cuts) {
    Box& first = parts[random() % parts.size()];
    const size_t d = random() % first.extent.size();
    if (first.extent[d] < 2) continue;
    Box second = first;
    const auto size = static_cast<int64_t>(1 + random() % static_cast<uint64_t>(first.extent[d] - 1));
    first.extent[d] = size;
    second.offset[d] += size;
    second.extent[d] -= size;
    parts.push_back(second);
  }
  std::shuffle(parts.begin(), parts.end(), random);
  return parts;
}

// Calls `body` with every number below `count`, each in a thread of its own. Returns what one of them threw.
std::string in_threads(size_t count, const std::function<void(size_t)>& body) {
  std::vector<std::string> problems(count);
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (size_t i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (const std::exception& exception) {
        problems[i] = exception.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems)
    if (!problem.empty()) return problem;
  return "";
}

// The element types that the format takes; it may refuse all but one of 32 bits.
std::vector<at::ScalarType> dtypes(const FormatTrial& trial) {
  std::vector<at::ScalarType> taken = {at::kFloat};
  for (const at::ScalarType dtype : {at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                                     at::kChar, at::kByte, at::kBool})
    try {
      const Writer writer(trial.path("dtype"), trial.options(), {{"a", dtype, {1}}});
      taken.push_back(dtype);
    } catch (const Error& error) {
      if (error.status() != WEFT_INVALID_ARGUMENT) throw;
    }
  return taken;
}

std::string keeps(const FormatTrial& trial) {
  const std::vector<std::vector<int64_t>> shapes = {{7, 5, 3}, {},        {4, 0, 2},       {33},
                                                    {2, 9},    {3, 3, 3}, {2, 2, 2, 2, 2}, {1}};
  const std::vector<at::ScalarType> types = dtypes(trial);
  std::vector<Entry> entries = {{"a name with % and \xc3\xa9", at::kFloat, {2}},
                                {std::string(300, 'n'), at::kFloat, {2}}};
  for (size_t i = 0; i < shapes.size() + types.size(); ++i)
    entries.push_back({fmt::format("h.{}.weight", i), types[i % types.size()], shapes[i % shapes.size()]});
  std::vector<at::Tensor> tensors;
  tensors.reserve(entries.size());
  for (const Entry& entry : entries) tensors.push_back(at::randint(0, 100, entry.shape).to(entry.dtype));

  constexpr size_t kThreads = 4;
  const auto part = [&](size_t i, const Box& box) {
    return view_of(tensors[i], Box::whole(entries[i].shape), box);
  };
  const auto parts_of_thread = [&](size_t thread, const std::function<void(size_t, const Box&)>& visit) {
    std::mt19937_64 random(thread);
    for (size_t i = thread; i < entries.size(); i += kThreads)
      for (const Box& box : random_parts(Box::whole(entries[i].shape), random)) visit(i, box);
  };
  trial.begin_anew();
  Writer writer(trial.model(), trial.options(), entries);
  std::string problem = in_threads(kThreads, [&](size_t thread) {
    parts_of_thread(thread, [&](size_t i, const Box& box) { writer.write(i, box, part(i, box)); });
  });
  if (!problem.empty()) return problem;
  writer.commit();

  const Reader reader(trial.model(), trial.format());
  if (reader.entries().size() != entries.size())
    return fmt::format("it holds {} tensors, must hold {}", reader.entries().size(), entries.size());
  for (const auto& [key, text] : trial.options().metadata)
    if (reader.metadata(key) != text) return fmt::format("the metadata \"{}\" is not what was written", key);
  if (reader.metadata("none")) return "there is metadata \"none\", which nobody wrote";
  return in_threads(kThreads, [&](size_t thread) {
    parts_of_thread(thread, [&](size_t i, const Box& box) {
      const std::optional<size_t> index = reader.find(entries[i].name);
      if (!index) fail(WEFT_DATA_LOSS, "the tensor \"{}\" is not there", printable(entries[i].name, 80));
      const Entry& found = reader.entries()[*index];
      if (found.dtype != entries[i].dtype || found.shape != entries[i].shape)
        fail(WEFT_DATA_LOSS, "the tensor \"{}\" has the shape ({}) of {}, must have ({}) of {}", found.name,
             fmt::join(found.shape, ", "), toString(found.dtype), fmt::join(entries[i].shape, ", "),
             toString(entries[i].dtype));
      const at::Tensor values = at::empty(box.extent, found.dtype);
      reader.read(*index, box, values);
      if (!at::equal(values, part(i, box)) || !at::equal(reader.read(*index), tensors[i]))
        fail(WEFT_DATA_LOSS, "the tensor \"{}\", ({}) of {}, has other elements than were written",
             found.name, fmt::join(found.shape, ", "), toString(found.dtype));
    });
  });
}

std::string takes_newer_structs(const FormatTrial& trial) {
  const weft_checkpoint_io& io = *trial.format().io;
  trial.begin_anew();
  auto writer = trial.create({});
  const std::vector<float> values(kRows * kColumns, 5);
  const uint64_t bytes = values.size() * sizeof(float);
  ErrorSink error;
  error.check(io.write(writer.get(), 0, nullptr, nullptr, values.data(), bytes, error));
  error.check(io.commit(writer.release(), error));
  if (std::string problem = trial.expect_saved(5); !problem.empty()) return problem;
  weft_checkpoint_reader* reader = nullptr;
  const std::string path = trial.model();
  error.check(io.open(&io, borrow(trial.format().name), borrow(path), &reader, error));
  GrownEntry grown;
  const weft_status status = io.tensor(reader, 0, &grown.entry, error);
  std::vector<float> read(values.size());
  const weft_status read_status = io.read(reader, 0, nullptr, nullptr, read.data(), bytes, error);
  io.close(reader);
  error.check(status);
  error.check(read_status);
  if (grown.more != GrownEntry::kMore || grown.entry.struct_size != sizeof grown)
    return "`tensor` writes what it does not know";
  return read == values ? "" : "a whole tensor, without offset and extent, is not what was written";
}

std::string refuses_boxes(const FormatTrial& trial) {
  trial.begin_anew();
  trial.save(1);
  const Reader reader(trial.model(), trial.format());
  const auto read = [&](const Box& box, const std::vector<int64_t>& extent) {
    return in_fork([&] {
      try {
        reader.read(0, box, at::empty(extent, at::kFloat));
      } catch (const Error&) {
        return std::string();
      }
      return std::string("was read");
    });
  };
  const std::vector<Box> outside = {{{0, 0}, {kRows + 1, kColumns}},
                                    {{1, 0}, {kRows, kColumns}},
                                    {{-1, 0}, {2, kColumns}},
                                    {{0, kColumns}, {kRows, 1}},
                                    {{INT64_MAX, 0}, {1, 1}}};
  for (const Box& box : outside)
    if (const std::string problem = read(box, box.extent); !problem.empty())
      return fmt::format("the box of ({}) at ({}) of a tensor of ({}, {}) {}", fmt::join(box.extent, ", "),
                         fmt::join(box.offset, ", "), kRows, kColumns, problem);
  const weft_checkpoint_io& io = *trial.format().io;
  const std::string size = in_fork([&] {
    const auto writer = trial.create({});
    std::vector<float> values(kRows * kColumns);
    ErrorSink error;
    const weft_status status =
        io.write(writer.get(), 0, nullptr, nullptr, values.data(), values.size() * sizeof(float) - 1, error);
    return std::string(status == WEFT_OK ? "was written" : "");
  });
  return size.empty() ? "" : "a box with a byte less than it has " + size;
}

std::string refuses_names(const FormatTrial& trial) {
  const std::string nowhere = trial.path("nowhere");
  std::string problem = refusal(WEFT_NOT_FOUND, "a path without a checkpoint",
                                [&] { const Reader reader(nowhere, trial.format()); });
  if (!problem.empty()) return problem;
  const Entry entry{"a", at::kFloat, {1}};
  return refusal(WEFT_INVALID_ARGUMENT, "a save of two tensors of one name", [&] {
    const Writer writer(nowhere, trial.options(), {entry, entry});
  });
}

std::string refuses_options(const FormatTrial& trial) {
  trial.begin_anew();
  for (const char* key : {"weft_validate_has_it_not", "sha", "shards", "prefix_", "metadata", "use"}) {
    weft_kv option{};
    option.key = borrow(std::string_view(key));
    option.kind = WEFT_KIND_TEXT;
    option.text = WEFT_STR("x");
    std::string problem = refusal(WEFT_INVALID_ARGUMENT, fmt::format("the option \"{}\"", key),
                                  [&] { trial.create({option}); });
    if (!problem.empty()) return problem;
  }
  const std::vector<std::string> left = trial.names();
  return left.empty() ? "" : fmt::format("a save that was refused left {}", fmt::join(left, ", "));
}

bool says_yes(const FormatTrial& trial, const std::string& path) {
  return trial.format().io->recognises(trial.format().io, borrow(path)) != 0;
}

std::string recognises(const FormatTrial& trial) {
  trial.begin_anew();
  const std::string empty = trial.path("empty"), other = trial.path("other"), file = trial.path("file");
  fs::create_directories(empty);
  fs::create_directories(other);
  std::ofstream(other + "/config.json") << "{}";
  std::vector<std::string> wrong = {trial.path("nowhere"), empty, other, file};
  std::ofstream(file) << "text";
  if (!checkpoint::is_default(trial.format())) {
    const checkpoint::WriteOptions plain;
    const std::string path = trial.path("plain.safetensors");
    Writer(path, plain, {}).commit();
    wrong.push_back(path);
  }
  for (const std::string& path : wrong)
    if (says_yes(trial, path)) return fmt::format("it says yes to {}", fs::path(path).filename().string());
  std::ofstream(file, std::ios::trunc).close();
  if (says_yes(trial, file)) return "it says yes to an empty file";
  trial.save(1);
  if (!says_yes(trial, trial.model())) return "it says no to a folder that it wrote";
  if (trial.options().shard) return "";
  const std::string alone = trial.path("alone");
  trial.save_to(alone, 2);
  if (!says_yes(trial, alone)) return "it says no to what it wrote where there was no folder";
  return trial.saved_in(alone) == 2 ? "" : "what it wrote where there was no folder has other values";
}

bool is_owned(const FormatTrial& trial, const std::string& name) {
  return trial.format().io->owns(trial.format().io, borrow(name), borrow(trial.options().prefix)) != 0;
}

std::string owns(const FormatTrial& trial) {
  trial.begin_anew();
  trial.save(1);
  for (const std::string& name : trial.names())
    if (!is_owned(trial, name)) return fmt::format("it wrote {}, which it says is not its own", name);
  for (const char* name : {"config.json", "tokenizer.json", "training_state", "README.md", ""})
    if (is_owned(trial, name)) return fmt::format("it says that \"{}\" is its own", name);
  return "";
}

struct Rule {
  const char* name;
  std::string (*problem)(const FormatTrial& trial);
};
constexpr Rule kRules[] = {
    {"tensors and metadata are those that were written, whatever the boxes", keeps},
    {"structs of a newer host are taken", takes_newer_structs},
    {"a box that is not in its tensor is refused", refuses_boxes},
    {"what exists nowhere, or twice, is refused", refuses_names},
    {"an option that the format does not have is refused", refuses_options},
    {"it recognises what it wrote and nothing else", recognises},
    {"it owns what it wrote and nothing else", owns},
    {"a save replaces the older one and no file of others", replaces},
    {"a save that leaves an element out fails", misses_nothing},
    {"an abandoned save changes nothing", abandons},
    {"a second save to the same place at a time is refused", excludes},
    {"a full disk is known before anything is written", knows_a_full_disk},
    {"a truncated file is refused", refuses_truncated_files},
    {"a damaged file is read or refused", survives_damage},
    {"a save that is killed leaves one whole checkpoint", survives_kills},
};

}  // namespace

void check_checkpoint_io(const std::string& name, const std::string& options, const Tell& tell) {
  const FormatTrial trial(name, options);
  for (const Rule& rule : kRules) {
    Check check{rule.name, true, ""};
    try {
      check.text = rule.problem(trial);
    } catch (const std::exception& exception) {
      check.text = exception.what();
    }
    check.passed = check.text.empty() || check.text.starts_with(kNotLooked);
    tell(check);
  }
}

}  // namespace weft::contract
