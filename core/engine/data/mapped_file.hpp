// A file in memory, read-only. If another process truncates it, reading it ends this process with SIGBUS.
#pragma once

#include <boost/interprocess/file_mapping.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <string>
#include <string_view>

namespace weft::data {

class MappedFile {
 public:
  // Throws NOT_FOUND or PERMISSION_DENIED with the path.
  explicit MappedFile(const std::string& path);
  std::string_view bytes() const {
    return {static_cast<const char*>(region_.get_address()), region_.get_size()};
  }

 private:
  boost::interprocess::mapped_region region_;  // of nothing for an empty file
};

}  // namespace weft::data
