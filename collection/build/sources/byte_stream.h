// Reads bytes from front to back: a range of a file, or a deflated archive member. Holds only one block in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "base/file.h"
#include "collection/formats/zip.h"

namespace maxsim::collection {

class ByteStream {
 public:
  virtual ~ByteStream() = default;

  // Reads the next `count` bytes into `out`. Returns DATA_LOSS if fewer are left, or if these bytes end an archive
  // member whose checksum is wrong.
  virtual absl::Status Read(void* out, size_t count) = 0;
};

// Reads bytes [begin, end) of a file. They must exist.
std::unique_ptr<ByteStream> ReadRange(std::shared_ptr<const InputFile> file, int64_t begin, int64_t end);

// Reads the uncompressed bytes of a member of the archive `file`. The CRC is checked when the last byte is read.
std::unique_ptr<ByteStream> ReadZipMember(std::shared_ptr<const InputFile> file, const ZipMember& member);

}  // namespace maxsim::collection
