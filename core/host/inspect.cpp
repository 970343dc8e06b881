#include "host/inspect.hpp"

#include "base/text.hpp"
#include "host/elf_file.hpp"
#include "host/load_error.hpp"
#include "host/trust.hpp"

namespace weft::host {
namespace {

void check_note(const Candidate& candidate, const ElfFile& elf) {
  const Manifest& manifest = candidate.manifest();
  const LibraryEntry& library = *candidate.library;
  if (!elf.note) {
    throw LoadError(
        Stage::kNote, WEFT_FAILED_PRECONDITION,
        fmt::format("it has no note of Weft's; build it with weft_add_plugin, or use WEFT_PLUGIN_NOTE"));
  }
  const auto facts = parse_note(*elf.note, library.file);
  const std::pair<const char*, std::string> wanted[] = {
      {"id", manifest.id},
      {"version", manifest.version},
      {"tier", std::string(tier_name(library.tier))},
      {"abi", fmt::format("{}.{}-{}", manifest.abi.major, manifest.abi.minor_min, manifest.abi.minor)},
      {"torch", library.torch_tag},
      {"build", library.build_id}};
  for (const auto& [key, value] : wanted) {
    const auto found = facts.find(key);
    const std::string text = found == facts.end() ? "" : found->second;
    if (text != value) {
      throw LoadError(
          Stage::kNote, WEFT_FAILED_PRECONDITION,
          fmt::format("the library's note has {} \"{}\", its manifest \"{}\"; they are not from one build, "
                      "install the plugin again",
                      key, printable(text), printable(value)));
    }
  }
}

void check_machine(const ElfFile& elf) {
  const uint16_t wanted = this_machine();
  if (elf.is_64_bit && elf.is_little_endian && elf.is_shared_object && elf.machine == wanted) return;
  std::string found =
      fmt::format("{}, {} bits, {}", elf.is_shared_object ? "a library" : "not a library",
                  elf.is_64_bit ? 64 : 32, elf.is_little_endian ? "little-endian" : "big-endian");
  if (elf.machine != 0) found += ", for " + machine_name(elf.machine);
  throw LoadError(
      Stage::kArch, WEFT_FAILED_PRECONDITION,
      fmt::format(
          "it is {}; this process needs a library for {}; install the plugin's build for this machine", found,
          machine_name(wanted)));
}

void check_needed(const LibraryEntry& library, const ElfFile& elf) {
  for (const std::string& needed : elf.needed) {
    const bool is_torch = needed.starts_with("libtorch") || needed.starts_with("libc10");
    const bool is_weft = needed.starts_with("libweft");
    if ((library.tier == WEFT_TIER_C && is_torch) || (library.tier != WEFT_TIER_NATIVE && is_weft)) {
      throw LoadError(Stage::kTier, WEFT_FAILED_PRECONDITION,
                      fmt::format("it is of tier {}, but needs {}; build it for the tier that it uses",
                                  tier_name(library.tier), needed));
    }
  }
  if (library.tier != WEFT_TIER_C && !elf.run_paths.empty()) {
    // Its path could load a second libtorch.
    throw LoadError(
        Stage::kTier, WEFT_FAILED_PRECONDITION,
        fmt::format(
            "it has a library search path of its own ({}), which tier {} may not; link it without RPATH",
            fmt::join(elf.run_paths, ", "), tier_name(library.tier)));
  }
}

}  // namespace

void check_compatible(const Candidate& candidate, const HostFacts& facts) {
  const LibraryEntry& library = *candidate.library;
  agree(facts.abi, candidate.manifest().abi);
  if (library.tier == WEFT_TIER_NATIVE && library.build_id != facts.build_id) {
    throw LoadError(
        Stage::kTier, WEFT_FAILED_PRECONDITION,
        fmt::format(
            "it is of tier native and was built with Weft's build {}, this Weft is build {}; rebuild it "
            "against this Weft",
            library.build_id, facts.build_id));
  }
  if (library.tier != WEFT_TIER_C && library.torch_tag != facts.torch_tag) {
    throw LoadError(
        Stage::kTorchTag, WEFT_FAILED_PRECONDITION,
        fmt::format("built for libtorch \"{}\", this Weft has \"{}\"; rebuild it, or install its build for "
                    "this libtorch",
                    printable(library.torch_tag), facts.torch_tag));
  }
}

void inspect(const Candidate& candidate, const std::filesystem::path& root, const HostFacts& facts) {
  const std::filesystem::path path = candidate.path();
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) {
    throw LoadError(
        Stage::kFind, WEFT_NOT_FOUND,
        fmt::format("its manifest names {}, which is not there; install the plugin again", path.string()));
  }
  const ElfFile elf = read_elf(path);
  check_machine(elf);
  check_note(candidate, elf);
  check_compatible(candidate, facts);
  check_needed(*candidate.library, elf);
  const std::set<uid_t> owners = trusted_owners(facts.engine.parent_path());
  check_trust(path, root, owners, candidate.library->sha256);
  if (const auto problem = find_intruder(candidate.installed->folder / "plugin.json", root, owners)) {
    throw LoadError(Stage::kTrust, WEFT_PERMISSION_DENIED, *problem);
  }
}

}  // namespace weft::host
