#include "tests/support/collection/zip_writer.h"

#include <zlib.h>

#include <cstdint>

#include "gtest/gtest.h"

namespace maxsim::collection {
namespace {

template <typename T>
void Put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Deflate(std::string_view data) {
  z_stream zlib = {};
  EXPECT_EQ(deflateInit2(&zlib, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&zlib, data.size()), '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  zlib.avail_in = static_cast<uInt>(data.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

}  // namespace

std::string ZipBytes(const std::vector<std::pair<std::string, std::string>>& members, const ZipOptions& options) {
  std::string out;
  std::string directory;
  constexpr uint32_t kIn64 = 0xffffffff;
  for (const auto& [name, data] : members) {
    const std::string stored = options.deflate ? Deflate(data) : data;
    const auto crc = static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(data.data()), data.size()));
    const uint64_t local = out.size();
    for (const bool is_entry : {false, true}) {
      std::string& record = is_entry ? directory : out;
      std::string extra;
      if (options.zip64) {
        Put<uint16_t>(extra, 1);
        Put<uint16_t>(extra, is_entry ? 24 : 16);
        Put<uint64_t>(extra, data.size());
        Put<uint64_t>(extra, stored.size());
        if (is_entry) Put<uint64_t>(extra, local);
      }
      Put<uint32_t>(record, is_entry ? 0x02014b50 : 0x04034b50);
      if (is_entry) Put<uint16_t>(record, 45);
      Put<uint16_t>(record, 45);
      Put<uint16_t>(record, 0);
      Put<uint16_t>(record, options.deflate ? 8 : 0);
      Put<uint32_t>(record, 0);
      Put<uint32_t>(record, crc);
      Put<uint32_t>(record, options.zip64 ? kIn64 : static_cast<uint32_t>(stored.size()));
      Put<uint32_t>(record, options.zip64 ? kIn64 : static_cast<uint32_t>(data.size()));
      Put<uint16_t>(record, static_cast<uint16_t>(name.size()));
      Put<uint16_t>(record, static_cast<uint16_t>(extra.size()));
      if (is_entry) {
        record.append(10, '\0');
        Put<uint32_t>(record, options.zip64 ? kIn64 : static_cast<uint32_t>(local));
      }
      record += name + extra;
    }
    out += stored;
  }
  const uint64_t begin = out.size();
  out += directory;
  if (options.zip64) {
    const uint64_t end64 = out.size();
    Put<uint32_t>(out, 0x06064b50);
    Put<uint64_t>(out, 44);
    out.append(12, '\0');
    for (const uint64_t value :
         {uint64_t{members.size()}, uint64_t{members.size()}, uint64_t{directory.size()}, begin}) {
      Put<uint64_t>(out, value);
    }
    Put<uint32_t>(out, 0x07064b50);
    Put<uint32_t>(out, 0);
    Put<uint64_t>(out, end64);
    Put<uint32_t>(out, 1);
  }
  Put<uint32_t>(out, 0x06054b50);
  Put<uint32_t>(out, 0);
  Put<uint16_t>(out, options.zip64 ? 0xffff : static_cast<uint16_t>(members.size()));
  Put<uint16_t>(out, options.zip64 ? 0xffff : static_cast<uint16_t>(members.size()));
  Put<uint32_t>(out, options.zip64 ? kIn64 : static_cast<uint32_t>(directory.size()));
  Put<uint32_t>(out, options.zip64 ? kIn64 : static_cast<uint32_t>(begin));
  Put<uint16_t>(out, 0);
  return out;
}

}  // namespace maxsim::collection
