// NonFiniteGuard: says where a loss or gradient that is not finite began.
#include <filesystem>

#include "base/text.hpp"
#include "comm/agreement.hpp"
#include "device/tensors.hpp"
#include "files/format.hpp"
#include "files/formats.hpp"
#include "weft/hooks.hpp"

namespace weft {

namespace fs = std::filesystem;

namespace {

// Returns what this rank has that is not finite; empty if all is finite here.
std::string first_nonfinite(Trainer& trainer) {
  std::string found = trainer.job().find_nonfinite(trainer.batch());
  if (!found.empty()) return found;
  const std::string& gradient = trainer.result().nonfinite_gradient;
  return gradient.empty() ? "" : fmt::format("the gradient of {}", gradient);
}

std::string write_batch(const Batch& batch, const fs::path& path) {
  std::vector<checkpoint::Entry> entries;
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : batch) {
    entries.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
    tensors.push_back(device::on_host(tensor).contiguous());
  }
  fs::create_directories(path.parent_path());
  checkpoint::Writer writer(path.string(), {}, entries);
  for (size_t i = 0; i < entries.size(); ++i) writer.write(i, Box::whole(entries[i].shape), tensors[i]);
  writer.commit();
  return path.string();
}

// Returns a line about this rank; empty if all is finite here.
std::string line_of(Trainer& trainer, const std::string& found, const std::string& folder) {
  if (found.empty()) return "";
  const int rank = trainer.booster().world().rank();
  std::vector<int64_t> samples = trainer.job().data.samples();
  constexpr size_t kMost = 16;
  const std::string more = samples.size() > kMost ? fmt::format(" and {} more", samples.size() - kMost) : "";
  samples.resize(std::min(samples.size(), kMost));
  std::string line = fmt::format("rank {}: {}; samples {}{}", rank, found, fmt::join(samples, ", "), more);
  if (!folder.empty())
    line += ", kept in " +
            write_batch(trainer.batch(),
                        fs::path(folder) / fmt::format("step-{}-rank-{}.safetensors", trainer.step(), rank));
  return line;
}

}  // namespace

void NonFiniteGuard::begin(Trainer& trainer) {
  trainer.job().guards_updates = true;
}

void NonFiniteGuard::after_step(Trainer& trainer) {
  if (trainer.result().finite) return;
  const World& world = trainer.booster().world();
  const std::string found = first_nonfinite(trainer);
  const std::vector<std::string> lines =
      gather_from_every_rank(world.communicator(), [&] { return line_of(trainer, found, folder_); });
  std::string text = fmt::format("step {} is not finite (loss {}) and updates nothing", trainer.step(),
                                 trainer.result().loss);
  for (const std::string& line : lines)
    if (!line.empty()) text += "; " + line;
  world.print_on_master(text);
  if (then_ == Then::kSkip) return;
  stopped_ = text;
  trainer.stop();
}

}  // namespace weft
