#include "data/mapped_file.hpp"

#include <boost/interprocess/exceptions.hpp>
#include <filesystem>

#include "base/text.hpp"

namespace weft::data {

namespace ipc = boost::interprocess;

MappedFile::MappedFile(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) fail(WEFT_NOT_FOUND, "{}: {}", path, error.message());
  if (size == 0) return;
  try {
    region_ = ipc::mapped_region(ipc::file_mapping(path.c_str(), ipc::read_only), ipc::read_only);
  } catch (const ipc::interprocess_exception& exception) {
    fail(WEFT_PERMISSION_DENIED, "{}: cannot be read: {}", path, exception.what());
  }
}

}  // namespace weft::data
