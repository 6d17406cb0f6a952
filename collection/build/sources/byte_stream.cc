#include "collection/build/sources/byte_stream.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/text.h"

namespace maxsim::collection {
namespace {

constexpr size_t kInflateBytes = size_t{256} << 10;

class RangeStream : public ByteStream {
 public:
  RangeStream(std::shared_ptr<const InputFile> file, int64_t begin, int64_t end)
      : file_(std::move(file)), next_(begin), end_(end) {}

  absl::Status Read(void* out, size_t count) override {
    if (count > static_cast<uint64_t>(end_ - next_)) {
      return absl::DataLossError(
          Cat(file_->path(), ": ", count, " bytes are needed from byte ", next_, ", but the array ends at ", end_));
    }
    if (absl::Status status = file_->ReadAt(next_, out, count); !status.ok()) return status;
    next_ += static_cast<int64_t>(count);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const InputFile> file_;
  int64_t next_;
  const int64_t end_;
};

// Reads a member that is stored or deflated, and checks its CRC.
class MemberStream : public ByteStream {
 public:
  MemberStream(std::shared_ptr<const InputFile> file, const ZipMember& member)
      : file_(std::move(file)),
        member_(member),
        left_(member.size),
        compressed_(file_, member.begin, member.end),
        compressed_left_(member.end - member.begin) {
    if (member_.deflated) {
      inflating_ = inflateInit2(&zlib_, -MAX_WBITS) == Z_OK;  // no zlib header inside an archive
      block_.resize(kInflateBytes);
    }
  }
  ~MemberStream() override {
    if (inflating_) inflateEnd(&zlib_);
  }
  MemberStream(const MemberStream&) = delete;
  MemberStream& operator=(const MemberStream&) = delete;

  absl::Status Read(void* out, size_t count) override {
    if (count > static_cast<uint64_t>(left_)) return Damaged("more bytes are wanted than it holds");
    absl::Status status = member_.deflated ? Inflate(out, count) : compressed_.Read(out, count);
    if (!status.ok()) return status;
    left_ -= static_cast<int64_t>(count);
    crc_ = crc32_z(crc_, static_cast<const Bytef*>(out), count);
    if (left_ == 0 && static_cast<uint32_t>(crc_) != member_.crc32) return Damaged("its CRC does not match its bytes");
    return absl::OkStatus();
  }

 private:
  absl::Status Damaged(std::string_view what) const {
    return absl::DataLossError(Cat(file_->path(), ": member ", Quote(member_.name), ": ", what));
  }

  absl::Status Inflate(void* out, size_t count) {
    if (!inflating_) return absl::ResourceExhaustedError("no memory to decompress");
    auto* next = static_cast<Bytef*>(out);
    while (count > 0) {
      if (zlib_.avail_in == 0) {
        const auto amount = static_cast<size_t>(std::min<int64_t>(kInflateBytes, compressed_left_));
        if (absl::Status status = compressed_.Read(block_.data(), amount); !status.ok()) return status;
        compressed_left_ -= static_cast<int64_t>(amount);
        zlib_.next_in = block_.data();
        zlib_.avail_in = static_cast<uInt>(amount);
      }
      const auto room = static_cast<uInt>(std::min<size_t>(count, std::numeric_limits<uInt>::max()));
      zlib_.next_out = next;
      zlib_.avail_out = room;
      const int result = inflate(&zlib_, Z_NO_FLUSH);
      const uInt made = room - zlib_.avail_out;
      next += made;
      count -= made;
      if (count == 0) break;
      // The compressed data is damaged, or ends too early: zlib makes no progress, and the loop would never end.
      if ((result != Z_OK && result != Z_BUF_ERROR) || (made == 0 && zlib_.avail_in == 0 && compressed_left_ == 0)) {
        return Damaged("its compressed bytes are damaged or cut off");
      }
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<const InputFile> file_;
  const ZipMember member_;
  int64_t left_;
  RangeStream compressed_;
  int64_t compressed_left_;
  uLong crc_ = 0;
  bool inflating_ = false;
  z_stream zlib_ = {};
  std::vector<Bytef> block_;
};

}  // namespace

std::unique_ptr<ByteStream> ReadRange(std::shared_ptr<const InputFile> file, int64_t begin, int64_t end) {
  return std::make_unique<RangeStream>(std::move(file), begin, end);
}

std::unique_ptr<ByteStream> ReadZipMember(std::shared_ptr<const InputFile> file, const ZipMember& member) {
  return std::make_unique<MemberStream>(std::move(file), member);
}

}  // namespace maxsim::collection
