#include "host/plugin_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "host/archive.hpp"
#include "host/trust.hpp"

namespace weft::host {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostEntries = 10'000;
constexpr uint64_t kMostBytes = uint64_t{16} << 30;  // a small archive may hold more than any disk
constexpr mode_t kFolderMode = 0755, kFileMode = 0644;
constexpr const char* kManifestName = "plugin.json";
constexpr const char* kDigests = "SHA256SUMS";

[[noreturn]] void refuse(const fs::path& path, int code) {
  fail(code == ENOSPC || code == EDQUOT || code == EFBIG ? WEFT_RESOURCE_EXHAUSTED : WEFT_UNAVAILABLE,
       "cannot write {}: {}", path.string(), std::strerror(code));
}

void make_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) refuse(path, errno);
}

// What was copied, for limits and errors.
class Copied {
 public:
  explicit Copied(const fs::path& source) : source_(source) {}
  void add_entry() {
    ++entries_;
    check();
  }
  void add_bytes(uint64_t bytes) {
    bytes_ += std::min(bytes, kMostBytes + 1);  // an archive may claim any number
    check();
  }

 private:
  void check() const {
    if (entries_ <= kMostEntries && bytes_ <= kMostBytes) return;
    fail(WEFT_RESOURCE_EXHAUSTED, "{} holds more than {} files or {} GiB; a plugin is smaller",
         source_.string(), kMostEntries, kMostBytes >> 30);
  }
  const fs::path& source_;
  uint64_t bytes_ = 0;
  size_t entries_ = 0;
};

// A new file, which is on the disk when close() has returned.
class NewFile {
 public:
  explicit NewFile(const fs::path& path)
      : path_(path),
        descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode)) {
    if (!descriptor_ && errno == EEXIST)
      fail(WEFT_INVALID_ARGUMENT, "the plugin holds {} twice", path.filename().string());
    if (!descriptor_) refuse(path, errno);
  }
  void write(std::string_view bytes) const {
    if (const int code = write_all(descriptor_.get(), bytes); code != 0) refuse(path_, code);
  }
  void close() {
    if (::fsync(descriptor_.get()) != 0) refuse(path_, errno);
    descriptor_.reset();
  }

 private:
  const fs::path path_;
  Descriptor descriptor_;
};

void copy_file(const fs::path& from, const fs::path& to, Copied& copied) {
  const Descriptor descriptor(::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!descriptor) fail(WEFT_UNAVAILABLE, "{}: {}", from.string(), std::strerror(errno));
  NewFile file(to);
  std::array<char, 1 << 16> bytes;
  while (const ssize_t count = ::read(descriptor.get(), bytes.data(), bytes.size())) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(WEFT_DATA_LOSS, "{}: {}", from.string(), std::strerror(errno));
    copied.add_bytes(static_cast<uint64_t>(count));
    file.write({bytes.data(), static_cast<size_t>(count)});
  }
  file.close();
}

void require_trusted(const fs::path& file, const fs::path& root, const std::set<uid_t>& owners) {
  if (const auto problem = find_intruder(file, root, owners)) fail(WEFT_PERMISSION_DENIED, "{}", *problem);
}

void copy_folder(const fs::path& from, const fs::path& to, const fs::path& root,
                 const std::set<uid_t>& owners, Copied& copied) {
  std::error_code code;
  fs::directory_iterator entry(from, code);
  for (const fs::directory_iterator end; !code && entry != end; entry.increment(code)) {
    const fs::path path = entry->path(), target = to / path.filename();
    const fs::file_type type = entry->symlink_status(code).type();
    if (code) break;
    const bool is_folder = type == fs::file_type::directory;
    if (type != fs::file_type::regular && !is_folder)
      fail(WEFT_INVALID_ARGUMENT, "{} is {}; a plugin consists of files and folders: copy the file there",
           path.string(), type == fs::file_type::symlink ? "a link" : "no file and no folder");
    if (!is_plain_name(path.filename().string()))
      fail(WEFT_INVALID_ARGUMENT,
           "{} must have a name of letters, digits and _ - . + that begins with no dot",
           printable(path.native()));
    require_trusted(path, root, owners);
    copied.add_entry();
    if (!is_folder) {
      copy_file(path, target, copied);
      continue;
    }
    make_folder(target);
    copy_folder(path, target, root, owners, copied);
  }
  if (code) fail(WEFT_UNAVAILABLE, "{}: {}", from.string(), code.message());
}

// Throws if the file "ARCHIVE.sha256" is there and has another digest.
void check_digest_beside(const fs::path& archive) {
  const fs::path file = archive.string() + ".sha256";
  std::error_code code;
  if (!fs::exists(file, code)) return;
  const std::string text = read_file(file, 1 << 16);
  const std::string wanted = text.substr(0, text.find_first_of(" \t\r\n")), found = sha256_file(archive);
  if (wanted != found)
    fail(WEFT_DATA_LOSS, "{} has the SHA-256 {}, {} says \"{}\"; get both again from where they came",
         archive.string(), found, file.string(), printable(wanted));
}

void unpack(const fs::path& source, const fs::path& target) {
  Archive archive(source);
  Copied copied(source);
  Archive::Entry entry;
  std::array<char, 1 << 16> bytes;
  while (archive.next(entry)) {
    copied.add_entry();
    copied.add_bytes(entry.size);
    fs::path folder = target;
    const fs::path parts = entry.is_folder ? entry.path : entry.path.parent_path();
    for (const fs::path& part : parts) make_folder(folder /= part);
    if (entry.is_folder) continue;
    NewFile file(target / entry.path);
    while (const size_t count = archive.read(bytes.data(), bytes.size())) file.write({bytes.data(), count});
    file.close();
  }
}

// Returns all files below `folder`.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

// Returns the folder with the one plugin.json. Throws if there is another, or something beside the plugin.
fs::path find_plugin(const fs::path& unpacked, const fs::path& source) {
  const std::vector<fs::path> files = files_in(unpacked);
  std::vector<fs::path> folders;
  for (const fs::path& file : files)
    if (file.filename() == kManifestName) folders.push_back(file.parent_path());
  if (folders.size() != 1)
    fail(WEFT_INVALID_ARGUMENT, "{} holds {} files plugin.json, must hold one: that of a plugin",
         source.string(), folders.size());
  for (const fs::path& file : files)
    if (const fs::path inside = file.lexically_relative(folders[0]); *inside.begin() == "..")
      fail(WEFT_INVALID_ARGUMENT, "{} holds {} beside the plugin in {}", source.string(),
           file.lexically_relative(unpacked).string(), folders[0].lexically_relative(unpacked).string());
  return folders[0];
}

// Throws unless SHA256SUMS, if it is there, has the digests of all other files.
void check_digest_file(const fs::path& plugin) {
  std::error_code code;
  if (!fs::exists(plugin / kDigests, code)) return;
  std::set<fs::path> checked = {plugin / kDigests};
  for (const std::string& line : split(read_file(plugin / kDigests, 1 << 20), '\n')) {
    const size_t space = line.find(' ');
    std::string name = space + 2 < line.size() && space != std::string::npos ? line.substr(space + 2) : "";
    if (name.starts_with("./")) name = name.substr(2);
    for (const std::string& part : split(name, '/'))
      if (!is_plain_name(part)) name.clear();
    if (name.empty() || name.starts_with('/'))
      fail(WEFT_DATA_LOSS, "{}: the line \"{}\" must be a SHA-256, two spaces and a file of the plugin",
           kDigests, printable(line));
    const std::string found = sha256_file(plugin / name);
    if (found != line.substr(0, space))
      fail(WEFT_DATA_LOSS, "{} has the SHA-256 {}, {} says {}; get the plugin again from where it came", name,
           found, kDigests, printable(line.substr(0, space)));
    checked.insert(plugin / name);
  }
  for (const fs::path& file : files_in(plugin))
    if (!checked.contains(file))
      fail(WEFT_DATA_LOSS, "{} does not name the file {}; get the plugin again from where it came", kDigests,
           file.lexically_relative(plugin).string());
}

}  // namespace

void make_folders(const fs::path& folder) {
  std::error_code code;
  if (folder.empty() || fs::is_directory(folder, code)) return;
  make_folders(folder.parent_path());
  make_folder(folder);
}

void sync_folder(const fs::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // EINVAL: this file system cannot.
  if (!descriptor || (::fsync(descriptor.get()) != 0 && errno != EINVAL)) refuse(folder, errno);
}

fs::path copy_plugin(const fs::path& source, const fs::path& target, const std::set<uid_t>& owners) {
  std::error_code code;
  if (!fs::exists(source, code))
    fail(WEFT_NOT_FOUND, "{} is not there; give the folder or the archive of a plugin",
         printable(source.native()));
  fs::path plugin = target;
  if (fs::is_directory(source, code)) {
    if (!fs::exists(source / kManifestName, code))
      fail(WEFT_NOT_FOUND, "{} has no plugin.json, so it is not the folder of a plugin", source.string());
    Copied copied(source);
    copy_folder(source, target, source, owners, copied);
  } else {
    require_trusted(source, fs::absolute(source).parent_path(), owners);
    check_digest_beside(source);
    unpack(source, target);
    plugin = find_plugin(target, source);
  }
  check_digest_file(plugin);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(target))
    if (entry.is_directory()) sync_folder(entry.path());
  sync_folder(target);
  return plugin;
}

}  // namespace weft::host
