// Fuzzes NumPy's .npy files. Both ways to read an accepted file must yield as many elements as its header says.
#include <cstdint>
#include <string>
#include <vector>

#include "collection/build/sources/array_input.h"
#include "collection/formats/npy.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

void CheckElements(const collection::NpyHeader& header, std::string_view input) {
  const MemoryFile memory(input);
  const absl::StatusOr<collection::NpyFile> mapped = collection::NpyFile::Open(memory.path());
  absl::StatusOr<collection::ArrayInput> streamed = collection::OpenNpyArray(memory.path());
  Require(mapped.ok() && streamed.ok(), "a file whose header was accepted opens");
  Require(mapped->shape() == header.shape && streamed->shape == header.shape && mapped->type() == streamed->type &&
              mapped->num_elements() == header.num_elements,
          "both readers see the header's shape");
  const absl::StatusOr<std::vector<int64_t>> integers = mapped->Integers();
  if (integers.ok()) {
    absl::StatusOr<collection::ArrayInput> again = collection::OpenNpyArray(memory.path());
    const auto same = collection::ReadIntegers(*again, header.num_elements);
    Require(same.ok() && *same == *integers, "both readers read the same integers");
    Require(static_cast<int64_t>(integers->size()) == header.num_elements, "an integer an element");
  } else {
    RequireRefusal(integers.status());
  }
  std::string data(static_cast<size_t>(header.num_bytes()), '\0');
  Require(streamed->bytes->Read(data.data(), data.size()).ok(), "every announced element can be read");
  Require(data == input.substr(static_cast<size_t>(header.data_begin)), "the elements are the file's bytes");
  Require(!streamed->bytes->Read(data.data(), 1).ok(), "there is nothing behind the last element");
}

void FuzzNpy(std::string_view input) {
  const absl::StatusOr<collection::NpyHeader> header =
      collection::ParseNpyHeader(input, static_cast<int64_t>(input.size()));
  if (!header.ok()) return RequireRefusal(header.status());
  int64_t product = 1;
  for (const int64_t extent : header->shape) {
    Require(extent >= 0 && !__builtin_mul_overflow(product, extent, &product), "no extent overflows");
  }
  Require(product == header->num_elements, "the elements are the shape's product");
  Require(header->num_bytes() >= 0 && header->data_begin + header->num_bytes() == static_cast<int64_t>(input.size()),
          "header and elements are the file");
  CheckElements(*header, input);
}

const Registration kNpyTarget("npy", &FuzzNpy);

}  // namespace
}  // namespace maxsim::fuzz
