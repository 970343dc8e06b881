#include "host/elf_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/note.h>

#include <cerrno>
#include <cstring>

#include "base/text.hpp"
#include "host/load_error.hpp"

namespace weft::host {
namespace {

constexpr uint64_t kLongestNote = 4096;
constexpr size_t kMostEntries = 4096;  // of the dynamic section: real ones have some thirty

// Reads values at offsets from the file and checks that they are inside the file.
class Bytes {
 public:
  Bytes(std::string_view bytes, std::string_view source) : bytes_(bytes), source_(source) {}

  [[noreturn]] void refuse(std::string_view what) const {
    throw LoadError(Stage::kNote, WEFT_DATA_LOSS,
                    fmt::format("{} {}; install the plugin again", source_, what));
  }
  std::string_view slice(uint64_t offset, uint64_t size, const char* what) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      refuse(fmt::format("is cut off or damaged: its {} lies at bytes {} to {}, but it has {} bytes", what,
                         offset, offset + size, bytes_.size()));
    }
    return bytes_.substr(offset, size);
  }
  template <typename Struct>
  Struct read(uint64_t offset, const char* what) const {
    Struct value;
    std::memcpy(&value, slice(offset, sizeof(Struct), what).data(), sizeof(Struct));
    return value;
  }

 private:
  std::string_view bytes_;
  std::string_view source_;
};

uint64_t round_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Finds Weft's note in a segment. A segment has several notes, each with an owner, a type and a description.
std::optional<std::string> find_note(const Bytes& segment, uint64_t size, uint64_t alignment) {
  for (uint64_t offset = 0; offset < size && size - offset >= sizeof(Elf64_Nhdr);) {
    const Elf64_Nhdr header = segment.read<Elf64_Nhdr>(offset, "note");
    const uint64_t owner_at = offset + sizeof(Elf64_Nhdr);
    const uint64_t text_at = owner_at + round_up(header.n_namesz, alignment);
    const std::string_view owner = segment.slice(owner_at, header.n_namesz, "note");
    const std::string_view text = segment.slice(text_at, header.n_descsz, "note");
    if (owner == std::string_view("WEFT", 5) && header.n_type == WEFT_NOTE_TYPE) {
      if (text.size() > kLongestNote) segment.refuse("has a note of Weft's that is too long");
      return std::string(text.substr(0, text.find('\0')));
    }
    offset = text_at + round_up(header.n_descsz, alignment);
  }
  return std::nullopt;
}

// Converts an address of the loaded library to an offset in the file.
uint64_t offset_of(const std::vector<Elf64_Phdr>& segments, uint64_t address, const Bytes& file) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
        address - segment.p_vaddr >= segment.p_filesz)
      continue;
    const uint64_t within = address - segment.p_vaddr;
    if (within > UINT64_MAX - segment.p_offset) break;
    return segment.p_offset + within;
  }
  file.refuse("is damaged: an address in its dynamic section is in no segment");
}

// What the dynamic section says: offsets into the table of names, and addresses.
struct Dynamic {
  std::vector<uint64_t> needed, run_paths;
  uint64_t names_size = 0;
  std::optional<uint64_t> names, symbols, hash, gnu_hash;
};

Dynamic read_entries(const Elf64_Phdr& segment, const Bytes& file) {
  Dynamic dynamic;
  const size_t count = std::min<uint64_t>(segment.p_filesz / sizeof(Elf64_Dyn), kMostEntries);
  file.slice(segment.p_offset, count * sizeof(Elf64_Dyn), "dynamic section");
  for (size_t i = 0; i < count; ++i) {
    const Elf64_Dyn entry = file.read<Elf64_Dyn>(segment.p_offset + i * sizeof(Elf64_Dyn), "dynamic section");
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_NEEDED) dynamic.needed.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH) dynamic.run_paths.push_back(entry.d_un.d_val);
    if (entry.d_tag == DT_STRSZ) dynamic.names_size = entry.d_un.d_val;
    if (entry.d_tag == DT_STRTAB) dynamic.names = entry.d_un.d_ptr;
    if (entry.d_tag == DT_SYMTAB) dynamic.symbols = entry.d_un.d_ptr;
    if (entry.d_tag == DT_HASH) dynamic.hash = entry.d_un.d_ptr;
    if (entry.d_tag == DT_GNU_HASH) dynamic.gnu_hash = entry.d_un.d_ptr;
  }
  return dynamic;
}

// How many symbols to look at for undefined ones. DT_HASH has a chain for each symbol; DT_GNU_HASH says at
// which symbol the defined ones begin, behind all undefined ones.
uint32_t count_symbols(const std::vector<Elf64_Phdr>& segments, const Dynamic& dynamic, const Bytes& file) {
  const auto second_word = [&](uint64_t address) {
    return file.read<uint32_t>(offset_of(segments, address, file) + sizeof(uint32_t), "table of hashes");
  };
  if (dynamic.gnu_hash) return second_word(*dynamic.gnu_hash);
  return dynamic.hash ? second_word(*dynamic.hash) : 0;
}

void read_dynamic(const std::vector<Elf64_Phdr>& segments, const Elf64_Phdr& segment, const Bytes& file,
                  ElfFile& out) {
  const Dynamic dynamic = read_entries(segment, file);
  const uint32_t num_symbols = count_symbols(segments, dynamic, file);
  if (dynamic.needed.empty() && dynamic.run_paths.empty() && num_symbols == 0) return;
  if (!dynamic.names) file.refuse("is damaged: its dynamic section has no table of names");
  const std::string_view text =
      file.slice(offset_of(segments, *dynamic.names, file), dynamic.names_size, "table of names");
  const auto name_at = [&](uint64_t offset) {
    if (offset >= text.size())
      file.refuse("is damaged: a name in its dynamic section lies outside the table of names");
    const std::string_view rest = text.substr(offset);
    return printable(rest.substr(0, rest.find('\0')), 1024);
  };
  for (const uint64_t offset : dynamic.needed) out.needed.push_back(name_at(offset));
  for (const uint64_t offset : dynamic.run_paths) out.run_paths.push_back(name_at(offset));
  if (num_symbols == 0) return;
  if (!dynamic.symbols) file.refuse("is damaged: its dynamic section has no table of symbols");
  const uint64_t symbols = offset_of(segments, *dynamic.symbols, file);
  file.slice(symbols, uint64_t{num_symbols} * sizeof(Elf64_Sym), "table of symbols");
  for (uint64_t i = 1; i < num_symbols; ++i) {  // the first one is empty
    const auto symbol = file.read<Elf64_Sym>(symbols + i * sizeof(Elf64_Sym), "table of symbols");
    if (symbol.st_shndx == SHN_UNDEF) out.imports.push_back(name_at(symbol.st_name));
  }
}

// Maps a file, because only a few pages of a large library are read.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path) {
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status = {};
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
      const int problem = errno;
      if (descriptor >= 0) close(descriptor);
      throw LoadError(Stage::kFind, WEFT_NOT_FOUND,
                      fmt::format("cannot open {}: {}", path.string(), std::strerror(problem)));
    }
    if (S_ISREG(status.st_mode) && status.st_size > 0) {
      size_ = static_cast<size_t>(status.st_size);
      data_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    }
    close(descriptor);
    if (data_ == MAP_FAILED) {
      throw LoadError(Stage::kNote, WEFT_DATA_LOSS,
                      fmt::format("{} is empty or not a regular file", path.string()));
    }
  }
  MappedFile(const MappedFile&) = delete;
  ~MappedFile() { munmap(data_, size_); }
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = MAP_FAILED;
  size_t size_ = 0;
};

}  // namespace

ElfFile parse_elf(std::string_view bytes, std::string_view source) {
  const Bytes file(bytes, source);
  if (!bytes.starts_with(std::string_view(ELFMAG, SELFMAG))) {
    throw LoadError(Stage::kNote, WEFT_DATA_LOSS,
                    fmt::format("{} is not an ELF library (it begins with \"{}\"); install the plugin again",
                                source, printable(bytes.substr(0, 4))));
  }
  const std::string_view identity = file.slice(0, EI_NIDENT, "header");
  ElfFile result;
  result.is_64_bit = identity[EI_CLASS] == ELFCLASS64;
  result.is_little_endian = identity[EI_DATA] == ELFDATA2LSB;
  if (!result.is_64_bit || !result.is_little_endian) return result;
  const Elf64_Ehdr header = file.read<Elf64_Ehdr>(0, "header");
  result.is_shared_object = header.e_type == ET_DYN;
  result.machine = header.e_machine;
  if (header.e_phentsize != sizeof(Elf64_Phdr))
    file.refuse("is damaged: its program headers have an unknown size");

  std::vector<Elf64_Phdr> segments;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    file.slice(header.e_phoff, (i + 1) * sizeof(Elf64_Phdr), "table of segments");
    segments.push_back(file.read<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr), "table of segments"));
  }
  for (const Elf64_Phdr& segment : segments) {
    // Checks segments that are not read here, too: dlopen maps them, and a truncated file would raise SIGBUS.
    if (segment.p_type == PT_LOAD || segment.p_type == PT_NOTE || segment.p_type == PT_DYNAMIC) {
      file.slice(segment.p_offset, segment.p_filesz, "segment");
    }
    if (segment.p_type == PT_NOTE && !result.note) {
      const std::string_view notes = file.slice(segment.p_offset, segment.p_filesz, "note");
      result.note = find_note(Bytes(notes, source), notes.size(), segment.p_align == 8 ? 8 : 4);
    }
    if (segment.p_type == PT_DYNAMIC) read_dynamic(segments, segment, file, result);
  }
  return result;
}

ElfFile read_elf(const std::filesystem::path& path) {
  const MappedFile file(path);
  return parse_elf(file.bytes(), path.string());
}

std::map<std::string, std::string> parse_note(std::string_view text, std::string_view source) {
  std::map<std::string, std::string> facts;
  for (const std::string& line : split(text, '\n')) {
    const size_t equals = line.find('=');
    if (equals == std::string::npos ||
        !facts.emplace(line.substr(0, equals), line.substr(equals + 1)).second) {
      throw LoadError(
          Stage::kNote, WEFT_DATA_LOSS,
          fmt::format("{} has a note with the line \"{}\", must be key=value, each key once; build it with "
                      "weft_add_plugin",
                      source, printable(line)));
    }
  }
  return facts;
}

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_RISCV:
      return "riscv";
    case EM_PPC64:
      return "ppc64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    default:
      return fmt::format("machine {}", machine);
  }
}

uint16_t this_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
#error "Weft supports x86-64 and aarch64"
#endif
}

}  // namespace weft::host
