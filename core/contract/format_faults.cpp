#include "contract/format_faults.hpp"

#include <ATen/ops/full.h>
#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <random>

#include "base/files.hpp"
#include "base/text.hpp"
#include "contract/kills.hpp"

namespace weft::contract {

namespace {

namespace fs = std::filesystem;
using checkpoint::Reader;
using checkpoint::Writer;

constexpr int64_t kRows = FormatTrial::kRows, kColumns = FormatTrial::kColumns;

// Reads all of the checkpoint, of which a file is damaged. An error must be one of a damaged or missing file,
// or UNIMPLEMENTED for what the bytes happen to say. With `whole` what is read must be what was saved.
std::string read_damaged(const FormatTrial& trial, std::optional<float> whole) {
  try {
    const Reader reader(trial.model(), trial.format());
    for (size_t i = 0; i < reader.entries().size(); ++i)
      if (reader.entries()[i].numel() <= kRows * kColumns) reader.read(i);
    return whole ? trial.expect_saved(*whole) : "";
  } catch (const Error& error) {
    const weft_status status = error.status();
    if (status == WEFT_DATA_LOSS || status == WEFT_NOT_FOUND || status == WEFT_UNIMPLEMENTED) return "";
    return fmt::format("it is refused with the status {}, must be {} (DATA_LOSS): {}", status, WEFT_DATA_LOSS,
                       error.what());
  }
}

// Saves 2 over 1 in forks that are killed at so many of the system calls of `body`, evenly spread.
std::string kill_saves(const FormatTrial& trial, const std::function<void()>& prepare,
                       const std::function<void()>& body, size_t most) {
  const auto begin_anew = [&] {
    trial.begin_anew();
    trial.save(1);
  };
  begin_anew();
  const size_t num_files = trial.files().size();
  const std::optional<size_t> calls = count_system_calls(prepare, body);
  if (!calls) return std::string(kNotLooked) + "ptrace is not allowed here";
  const size_t cases = std::min(*calls, most);
  for (size_t i = 0; i < cases; ++i) {
    const size_t number = cases < 2 ? 0 : i * (*calls - 1) / (cases - 1);
    begin_anew();
    kill_at_system_call(number, prepare, body);
    const std::string where = fmt::format("killed at system call {} of {}", number + 1, *calls);
    try {
      if (const float value = trial.saved(); value != 1 && value != 2)
        return fmt::format("{}: the tensor has the value {}", where, value);
      trial.save(3);
      if (std::string problem = trial.expect_saved(3); !problem.empty())
        return fmt::format("{}, the next save: {}", where, problem);
    } catch (const Error& error) {
      return fmt::format("{}: {}", where, error.what());
    }
    if (trial.files().size() != num_files)
      return fmt::format("{}: the next save leaves files of it: {}", where, fmt::join(trial.files(), ", "));
  }
  return "";
}

}  // namespace

std::string replaces(const FormatTrial& trial) {
  trial.begin_anew();
  std::ofstream(trial.model() + "/config.json") << "{}";
  trial.save(1);
  const size_t before = trial.files().size();
  trial.save(2);
  if (std::string problem = trial.expect_saved(2); !problem.empty()) return problem;
  if (read_file(trial.model() + "/config.json", 100) != "{}") return "it changed config.json";
  if (trial.files().size() == before) return "";
  return fmt::format("there were {} files after the first save and {} after the second: {}", before,
                     trial.files().size(), fmt::join(trial.files(), ", "));
}

std::string misses_nothing(const FormatTrial& trial) {
  trial.begin_anew();
  trial.save(1);
  const std::vector<std::string> before = trial.files();
  for (const bool any : {true, false}) {
    const auto commit = [&] {
      Writer writer(trial.model(), trial.options(), {{"values", at::kFloat, {kRows, kColumns}}});
      if (any) writer.write(0, {{0, 0}, {kRows, kColumns - 1}}, at::full({kRows, kColumns - 1}, 2.F));
      // Together as many elements as the tensor has, but some twice.
      if (any) writer.write(0, {{0, 0}, {kRows, 1}}, at::full({kRows, 1}, 2.F));
      writer.commit();
    };
    const std::string what = any ? "a tensor of which a column was written twice and one never"
                                 : "a tensor that was never written";
    std::string problem = refusal(WEFT_FAILED_PRECONDITION, what, commit);
    if (!problem.empty()) return problem;
  }
  return trial.files() == before ? trial.expect_saved(1)
                                 : fmt::format("it left {}", fmt::join(trial.files(), ", "));
}

std::string abandons(const FormatTrial& trial) {
  trial.begin_anew();
  trial.save(1);
  const std::vector<std::string> before = trial.files();
  {
    Writer writer(trial.model(), trial.options(), {{"values", at::kFloat, {8}}});
    writer.write(0, Box::whole({8}), at::full({8}, 2.F));
  }
  return trial.files() == before ? trial.expect_saved(1)
                                 : fmt::format("it left {}", fmt::join(trial.files(), ", "));
}

std::string excludes(const FormatTrial& trial) {
  trial.begin_anew();
  Writer writer(trial.model(), trial.options(), {{"values", at::kFloat, {kRows, kColumns}}});
  std::string problem = refusal(WEFT_UNAVAILABLE, "a save while another was under way",
                                [&] { const Writer second(trial.model(), trial.options(), {}); });
  if (!problem.empty()) return problem;
  writer.write(0, Box::whole({kRows, kColumns}), at::full({kRows, kColumns}, 3.F));
  writer.commit();
  return trial.expect_saved(3);
}

std::string knows_a_full_disk(const FormatTrial& trial) {
  trial.begin_anew();
  trial.save(1);
  const std::vector<std::string> before = trial.files();
  std::string problem = in_fork([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64 << 10, 64 << 10};  // of a file
    setrlimit(RLIMIT_FSIZE, &limit);
    return refusal(WEFT_RESOURCE_EXHAUSTED, "a tensor of 1 MiB where files may have 64 KiB", [&] {
      const Writer writer(trial.model(), trial.options(), {{"values", at::kFloat, {1 << 18}}});
    });
  });
  if (!problem.empty()) return problem;
  return trial.files() == before ? trial.expect_saved(1)
                                 : fmt::format("it left {}", fmt::join(trial.files(), ", "));
}

std::string refuses_truncated_files(const FormatTrial& trial) {
  trial.begin_anew();
  trial.save(1);
  for (const std::string& name : trial.files()) {
    const std::string file = trial.model() + "/" + name, bytes = read_file(file, 1 << 24);
    for (const size_t size : {bytes.size() - 1, bytes.size() / 2, size_t{0}}) {
      if (size >= bytes.size()) continue;
      fs::resize_file(file, size);
      const std::string problem = in_fork([&] { return read_damaged(trial, 1); });
      std::ofstream(file, std::ios::binary) << bytes;
      if (!problem.empty())
        return fmt::format("{} with {} of its {} bytes: {}", name, size, bytes.size(), problem);
    }
  }
  return trial.expect_saved(1);
}

std::string survives_damage(const FormatTrial& trial) {
  constexpr size_t kHead = 400;  // bytes in which most of what describes a file lies
  constexpr int kCases = 100;
  trial.begin_anew();
  trial.save(1);
  std::mt19937_64 random(7);
  const std::vector<std::string> names = trial.files();
  for (int i = 0; i < kCases; ++i) {
    const std::string& name = names[random() % names.size()];
    const std::string file = trial.model() + "/" + name, bytes = read_file(file, 1 << 24);
    if (bytes.empty()) continue;
    std::string damaged = bytes;
    const size_t at = random() % std::min(bytes.size(), kHead);
    damaged[at] = static_cast<char>(random());
    std::ofstream(file, std::ios::binary) << damaged;
    const std::string problem = in_fork([&] { return read_damaged(trial, std::nullopt); });
    std::ofstream(file, std::ios::binary) << bytes;
    if (!problem.empty()) return fmt::format("{} with another byte {}: {}", name, at, problem);
  }
  return trial.expect_saved(1);
}

std::string survives_kills(const FormatTrial& trial) {
  constexpr size_t kOfSave = 20, kOfCommit = 80;
  std::unique_ptr<Writer> writer;
  const auto write = [&] {
    writer =
        std::make_unique<Writer>(trial.model(), trial.options(),
                                 std::vector<checkpoint::Entry>{{"values", at::kFloat, {kRows, kColumns}}});
    writer->write(0, Box::whole({kRows, kColumns}), at::full({kRows, kColumns}, 2.F));
  };
  std::string problem = kill_saves(
      trial, write, [&] { writer->commit(); }, kOfCommit);
  return problem.empty() ? kill_saves(
                               trial, [] {}, [&] { trial.save(2); }, kOfSave)
                         : problem;
}

}  // namespace weft::contract
