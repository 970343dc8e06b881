#include "failure.hpp"

#include <sys/resource.h>

#include <charconv>
#include <optional>

#include "base/bytes.hpp"
#include "base/error_sink.hpp"
#include "base/host_memory.hpp"
#include "base/rank_failure.hpp"
#include "base/text.hpp"
#include "device/counting_allocator.hpp"
#include "device/device.hpp"
#include "host/launch/activity.hpp"

namespace weft {
namespace {

// libtorch's allocator: "... you tried to allocate 4096 bytes."
std::optional<int64_t> bytes_asked(std::string_view text) {
  constexpr std::string_view kBefore = "tried to allocate ";
  const size_t begin = text.find(kBefore);
  int64_t bytes = 0;
  if (begin == text.npos) return std::nullopt;
  const auto [end, error] =
      std::from_chars(text.data() + begin + kBefore.size(), text.data() + text.size(), bytes);
  return error == std::errc() ? std::optional(bytes) : std::nullopt;
}

bool tells_of_memory(std::string_view text) {
  return text.find("DefaultCPUAllocator") != text.npos || text.find("std::bad_alloc") != text.npos ||
         text.ends_with("out of memory");
}

constexpr const char* kLessMemory =
    "; use a smaller --batch-size, --sequence-length or model, a larger --accumulate, --recompute all, "
    "--precision bf16, or more ranks under a strategy that shards (weft plan estimates what each takes)";

// What the allocator of a device says. It knows how much there is and who has it.
std::string out_of_device_memory(std::string_view text) {
  const std::string activity = current_activity();
  return fmt::format("out of memory of {}{}{}: {}{}", device::current().name(), activity.empty() ? "" : " ",
                     activity, text, kLessMemory);
}

std::string out_of_memory(std::string_view text) {
  const std::string activity = current_activity();
  std::string told = fmt::format("out of memory{}{}: ", activity.empty() ? "" : " ", activity);
  if (const auto asked = bytes_asked(text))
    told += fmt::format("there is no room for another {}", format_bytes(*asked));
  else
    told += "an allocation failed";
  if (allocated_bytes() > 0)
    told += fmt::format(" beside this rank's tensors of {}", format_bytes(allocated_bytes()));
  const auto left = host_memory("MemAvailable"), all = host_memory("MemTotal");
  if (left && all)
    told += fmt::format("; this host has {} left of {}", format_bytes(*left), format_bytes(*all));
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    told += fmt::format(", and `ulimit -v` allows a process {}",
                        format_bytes(static_cast<int64_t>(limit.rlim_cur)));
  return told + kLessMemory;
}

// The operation that libtorch has refused in its deterministic mode, if the text tells of one: "put_ does not
// have a deterministic implementation, but you set ...", behind what the caller has put before it.
std::optional<std::string_view> refused_operation(std::string_view text) {
  const size_t end = text.find(" does not have a deterministic implementation");
  if (end == text.npos) return std::nullopt;
  const size_t before = text.find_last_of(" \n", end - 1);
  return text.substr(before == text.npos ? 0 : before + 1, end - (before == text.npos ? 0 : before + 1));
}

std::string not_deterministic(std::string_view operation) {
  return fmt::format(
      "the operation {} has no deterministic implementation on {}, and the job is to be deterministic; leave "
      "--deterministic (deterministic of the booster's options) out, or use a model without this operation",
      operation, device::current().name());
}

}  // namespace

Failure describe(const std::exception& exception) {
  const auto* const own = dynamic_cast<const Error*>(&exception);
  const std::string_view text = text_of(exception);
  // What another rank failed with has been described there.
  if (const auto operation = refused_operation(text); operation && !culprit_of(text))
    return {WEFT_UNIMPLEMENTED, not_deterministic(*operation)};
  const weft_status status = own != nullptr ? own->status() : WEFT_INTERNAL;
  // The allocators of devices say it in their own words. The type of the exception is lost where it passed
  // through a strategy.
  if (!device::current().is_host() && status == WEFT_INTERNAL && !culprit_of(text) &&
      text.find("out of memory") != text.npos)
    return {WEFT_RESOURCE_EXHAUSTED, out_of_device_memory(text)};
  if (!tells_of_memory(text) || culprit_of(text)) return {status, std::string(text)};
  return {WEFT_RESOURCE_EXHAUSTED, out_of_memory(text)};
}

}  // namespace weft
