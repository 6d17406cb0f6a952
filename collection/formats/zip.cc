#include "collection/formats/zip.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>

#include "base/text.h"

namespace maxsim::collection {
namespace {

// The ZIP format is described in https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, section 4.3.
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64LocatorSignature = 0x07064b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kEntrySignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64LocatorBytes = 20;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kEntryBytes = 46;
constexpr size_t kLocalBytes = 30;
constexpr size_t kMaxCommentBytes = 65535;
constexpr uint16_t kEncryptedFlag = 1;
constexpr uint32_t kIn64 = 0xffffffff;  // the real value stands in the 64-bit extra field
constexpr uint16_t kExtra64Id = 1;

// Deflate cannot compress better than 1 : 1,032, because its shortest code has two bits and makes 258 bytes. The slack
// is for the header of a block. An archive that claims a higher ratio is refused.
constexpr uint64_t kMaxDeflateRatio = 1032;
constexpr uint64_t kDeflateSlackBytes = 4096;

template <typename T>
T LoadAt(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

struct Directory {
  uint64_t num_entries = 0;
  uint64_t begin = 0;
  uint64_t num_bytes = 0;
};

// Returns whether [begin, begin + count) lies inside `bytes`.
bool Inside(std::string_view bytes, uint64_t begin, uint64_t count) {
  return begin <= bytes.size() && count <= bytes.size() - begin;
}

absl::StatusOr<Directory> FindDirectory(std::string_view bytes) {
  if (bytes.size() < kEndBytes) return Invalid("not a ZIP archive: only ", bytes.size(), " bytes");
  // Searches for the end record from the end of the file. Only a comment may follow it.
  std::optional<size_t> end;
  const size_t last = bytes.size() - kEndBytes;
  const size_t first = last > kMaxCommentBytes ? last - kMaxCommentBytes : 0;
  for (size_t at = last + 1; at-- > first;) {
    if (LoadAt<uint32_t>(bytes, at) == kEndSignature && LoadAt<uint16_t>(bytes, at + 20) == last - at) {
      end = at;
      break;
    }
  }
  if (!end.has_value()) return Invalid("not a ZIP archive: no end record (cut off?)");
  Directory directory{LoadAt<uint16_t>(bytes, *end + 10), LoadAt<uint32_t>(bytes, *end + 16),
                      LoadAt<uint32_t>(bytes, *end + 12)};
  const bool in_64 =
      *end >= kEnd64LocatorBytes && LoadAt<uint32_t>(bytes, *end - kEnd64LocatorBytes) == kEnd64LocatorSignature;
  if (in_64) {
    const auto at = LoadAt<uint64_t>(bytes, *end - kEnd64LocatorBytes + 8);
    if (!Inside(bytes, at, kEnd64Bytes) || LoadAt<uint32_t>(bytes, at) != kEnd64Signature) {
      return Invalid("damaged ZIP archive: its 64-bit end record is not where its locator says");
    }
    directory = {LoadAt<uint64_t>(bytes, at + 32), LoadAt<uint64_t>(bytes, at + 48), LoadAt<uint64_t>(bytes, at + 40)};
  }
  if (!Inside(bytes, directory.begin, directory.num_bytes) ||
      directory.num_entries > directory.num_bytes / kEntryBytes) {
    return Invalid("damaged ZIP archive: a directory of ", directory.num_entries, " entries in ", directory.num_bytes,
                   " bytes at ", directory.begin);
  }
  return directory;
}

// Replaces those of the three values that are kIn64 by 64-bit values from the extra field, in the order of the
// parameters.
absl::Status ReadExtra64(std::string_view extra, uint64_t* size, uint64_t* compressed, uint64_t* local) {
  while (extra.size() >= 4) {
    const auto id = LoadAt<uint16_t>(extra, 0);
    const auto length = LoadAt<uint16_t>(extra, 2);
    if (length > extra.size() - 4) break;
    if (id == kExtra64Id) {
      std::string_view field = extra.substr(4, length);
      for (uint64_t* value : {size, compressed, local}) {
        if (*value != kIn64) continue;
        if (field.size() < 8) return Invalid("its 64-bit sizes are missing");
        *value = LoadAt<uint64_t>(field, 0);
        field.remove_prefix(8);
      }
      return absl::OkStatus();
    }
    extra.remove_prefix(size_t{4} + length);
  }
  return absl::OkStatus();
}

// Parses the directory entry at the front of `rest`, and advances `rest` past it. `bytes` is the whole archive.
absl::StatusOr<ZipMember> ParseEntry(std::string_view bytes, std::string_view* rest) {
  if (rest->size() < kEntryBytes || LoadAt<uint32_t>(*rest, 0) != kEntrySignature) {
    return Invalid("damaged ZIP archive: no directory entry where one should be");
  }
  const auto flags = LoadAt<uint16_t>(*rest, 8);
  const auto method = LoadAt<uint16_t>(*rest, 10);
  const auto crc32 = LoadAt<uint32_t>(*rest, 16);
  uint64_t compressed = LoadAt<uint32_t>(*rest, 20);
  uint64_t size = LoadAt<uint32_t>(*rest, 24);
  const size_t name_bytes = LoadAt<uint16_t>(*rest, 28);
  const size_t extra_bytes = LoadAt<uint16_t>(*rest, 30);
  const size_t comment_bytes = LoadAt<uint16_t>(*rest, 32);
  uint64_t local = LoadAt<uint32_t>(*rest, 42);
  const size_t entry_bytes = kEntryBytes + name_bytes + extra_bytes + comment_bytes;
  if (entry_bytes > rest->size()) return Invalid("damaged ZIP archive: a directory entry passes the directory's end");
  ZipMember member;
  member.name = std::string(rest->substr(kEntryBytes, name_bytes));
  const std::string where = Cat("member ", Quote(member.name), ": ");
  absl::Status extra = ReadExtra64(rest->substr(kEntryBytes + name_bytes, extra_bytes), &size, &compressed, &local);
  if (!extra.ok()) return Prefix(where, extra);
  rest->remove_prefix(entry_bytes);

  if ((flags & kEncryptedFlag) != 0) return Invalid(where, "is encrypted");
  if (method != 0 && method != 8)
    return Invalid(where, "compression method ", method, "; must be stored (0) or deflate (8)");
  if (!Inside(bytes, local, kLocalBytes) || LoadAt<uint32_t>(bytes, local) != kLocalSignature) {
    return Invalid(where, "no local header at byte ", local);
  }
  const uint64_t begin =
      local + kLocalBytes + LoadAt<uint16_t>(bytes, local + 26) + LoadAt<uint16_t>(bytes, local + 28);
  if (!Inside(bytes, begin, compressed)) {
    return Invalid(where, compressed, " bytes at ", begin, " are beyond the end of the file");
  }
  if (size > static_cast<uint64_t>(INT64_MAX)) return Invalid(where, "size ", size, " is beyond 2^63 - 1");
  if (method == 0 && size != compressed)
    return Invalid(where, "stored, but in ", compressed, " bytes instead of ", size);
  if (method == 8 && size > kDeflateSlackBytes && (size - kDeflateSlackBytes) / kMaxDeflateRatio > compressed) {
    return Invalid(where, "a size of ", size, ", more than deflate can make of ", compressed, " bytes (",
                   kMaxDeflateRatio, " times as many)");
  }
  member.deflated = method == 8;
  member.crc32 = crc32;
  member.begin = static_cast<int64_t>(begin);
  member.end = static_cast<int64_t>(begin + compressed);
  member.size = static_cast<int64_t>(size);
  return member;
}

}  // namespace

absl::StatusOr<std::vector<ZipMember>> ParseZip(std::string_view bytes) {
  absl::StatusOr<Directory> directory = FindDirectory(bytes);
  if (!directory.ok()) return directory.status();
  std::string_view rest = bytes.substr(directory->begin, directory->num_bytes);
  std::vector<ZipMember> members;
  std::set<std::string> names;
  for (uint64_t idx = 0; idx < directory->num_entries; ++idx) {
    absl::StatusOr<ZipMember> member = ParseEntry(bytes, &rest);
    if (!member.ok()) return member.status();
    // Refuses a name that appears twice, because programs differ in which of the two members they use.
    if (!names.insert(member->name).second) return Invalid("holds the member ", Quote(member->name), " twice");
    members.push_back(*std::move(member));
  }
  return members;
}

}  // namespace maxsim::collection
