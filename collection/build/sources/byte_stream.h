// Reads bytes from front to back: a range of a file, or a deflated archive member. It holds a block at a time, whatever
// the size of the whole.
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

  // Fills all of `out` with the next `count` bytes. DATA_LOSS if the stream ends before that, or if an archive member
  // turns out at its end to have another checksum than the archive says.
  virtual absl::Status Read(void* out, size_t count) = 0;
};

// Bytes [begin, end) of a file, which must lie inside it.
std::unique_ptr<ByteStream> ReadRange(std::shared_ptr<const InputFile> file, int64_t begin, int64_t end);

// Reads the uncompressed bytes of a member of the archive `file`. The CRC is checked when the last byte is read.
std::unique_ptr<ByteStream> ReadZipMember(std::shared_ptr<const InputFile> file, const ZipMember& member);

}  // namespace maxsim::collection
