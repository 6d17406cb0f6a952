// Scores without matches, which the service's kernels for Hopper compute, compared bit for bit with scores with
// matches, which they never compute. On other GPUs the same kernels compute both.
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/library/include/maxsim/maxsim.h"
#include "tests/gpu/gpu_fixture.h"
#include "tests/gpu/library/gpu_library_device.h"
#include "tests/gpu/library/gpu_library_fixture.h"
#include "tests/support/library/library_case.h"

namespace maxsim::test {
namespace {

void ExpectSameBits(const std::vector<float>& scores, const std::vector<float>& expected) {
  ASSERT_EQ(scores.size(), expected.size());
  for (size_t pair = 0; pair < scores.size(); ++pair) {
    ASSERT_EQ(std::memcmp(&scores[pair], &expected[pair], sizeof(float)), 0)
        << "pair " << pair << ": " << scores[pair] << " and " << expected[pair];
  }
}

class GpuLibraryServiceTest : public GpuLibraryTest {
 protected:
  // Compares the two ways to score a call, and `num_runs` runs of the first one.
  void ExpectScoresWithoutMatches(const LibraryShape& shape, uint64_t seed, int num_runs = 1) {
    SCOPED_TRACE(testing::PrintToString(shape));
    const LibraryCase library_case(shape, seed);
    DeviceCase device(library_case);
    device.Forward(stream_.get());
    const std::vector<float> expected = device.scores();
    for (int run = 0; run < num_runs; ++run) {
      device.Poison();
      device.Forward(stream_.get(), /*with_argmax=*/false);
      ExpectSameBits(device.scores(), expected);
    }
  }
};

// Queries, their tokens, and how their documents are laid out and paired with them. They take one query tile or many,
// one row tile or many, whole ones and half ones.
std::vector<LibraryShape> ShapesOfCalls() {
  std::vector<LibraryShape> shapes;
  const auto add = [&](int64_t num_queries, int64_t query_tokens, int32_t pairing, int32_t document_layout) {
    LibraryShape shape;
    shape.num_queries = num_queries;
    shape.num_documents = 40;
    shape.max_query_tokens = query_tokens;
    shape.max_document_tokens = 50;
    shape.pairing = pairing;
    shape.list_length = pairing == MAXSIM_LISTS ? 7 : 0;
    shape.document_layout = document_layout;
    shapes.push_back(shape);
    return &shapes.back();
  };
  add(1, 32, MAXSIM_ALL, MAXSIM_PADDED);
  add(9, 33, MAXSIM_ALL, MAXSIM_PADDED)->weights = true;
  LibraryShape* shape = add(3, 40, MAXSIM_ALL, MAXSIM_PADDED);
  shape->lengths = true;
  shape->query_mask = true;
  shape->weights = true;
  shape = add(12, 32, MAXSIM_ALL, MAXSIM_PACKED);
  shape->index_type = MAXSIM_INT32;
  shape->query_layout = MAXSIM_PACKED;
  add(9, 70, MAXSIM_ALL, MAXSIM_SCATTERED)->query_mask = true;
  shape = add(40, 20, MAXSIM_LISTS, MAXSIM_PADDED);
  shape->candidates = true;
  shape->lengths = true;
  add(7, 130, MAXSIM_LISTS, MAXSIM_PADDED)->candidates = true;
  add(3, 300, MAXSIM_LISTS, MAXSIM_PACKED)->weights = true;
  add(5, 31, MAXSIM_LISTS, MAXSIM_PADDED);
  add(33, 33, MAXSIM_PAIRS, MAXSIM_PADDED)->lengths = true;
  add(4, 8, MAXSIM_PAIRS, MAXSIM_PADDED);
  return shapes;
}

TEST_F(GpuLibraryServiceTest, EveryCallHasTheBitsOfScoresWithMatches) {
  SCOPED_TRACE(SeedTrace(TestSeed()));
  const struct {
    int32_t type;
    std::vector<int32_t> dims;
  } types[] = {{MAXSIM_F16, {128, 136, 200, 768, 1024}},
               {MAXSIM_BF16, {96, 264, 512}},
               {MAXSIM_I8, {16, 96, 128, 240, 272, 768, 2048}}};
  for (const auto& [type, dims] : types) {
    for (const int32_t dim : dims) {
      for (LibraryShape shape : ShapesOfCalls()) {
        shape.type = type;
        shape.dim = dim;
        shape.query_scale_of = dim % 3 == 0 ? MAXSIM_SCALE_PER_SEQUENCE : MAXSIM_SCALE_PER_TOKEN;
        ExpectScoresWithoutMatches(shape, TestSeed() + dim);
      }
    }
  }
}

TEST_F(GpuLibraryServiceTest, ManyDocumentsOfAllLengthsHaveTheSameBitsInEveryRun) {
  for (const int32_t type : {MAXSIM_F16, MAXSIM_I8}) {
    for (const int32_t layout : {MAXSIM_PADDED, MAXSIM_PACKED}) {
      for (const int32_t dim : {128, 320}) {
        LibraryShape shape;
        shape.type = type;
        shape.dim = dim;
        shape.num_queries = 10;
        shape.num_documents = 1500;
        shape.max_query_tokens = 70;
        shape.max_document_tokens = 60;
        shape.document_layout = layout;
        shape.lengths = layout == MAXSIM_PADDED;
        ExpectScoresWithoutMatches(shape, TestSeed(), /*num_runs=*/20);
      }
    }
  }
}

TEST_F(GpuLibraryServiceTest, ALongDocumentAmongShortOnesIsScored) {
  LibraryShape shape;
  shape.type = MAXSIM_I8;
  shape.dim = 32;
  shape.num_queries = 2;
  shape.num_documents = 3;
  shape.max_query_tokens = 200;
  shape.max_document_tokens = 9000;
  shape.document_layout = MAXSIM_PACKED;
  ExpectScoresWithoutMatches(shape, TestSeed());
}

TEST_F(GpuLibraryServiceTest, ACapturedGraphScoresAgainWhatItsMemoryHolds) {
  LibraryShape shape;
  shape.type = MAXSIM_I8;
  shape.dim = 384;
  shape.num_queries = 3;
  shape.num_documents = 50;
  shape.max_query_tokens = 40;
  shape.max_document_tokens = 30;
  shape.lengths = true;
  const LibraryCase library_case(shape, TestSeed());
  DeviceCase device(library_case);
  device.Forward(stream_.get());
  const std::vector<float> expected = device.scores();
  GpuLibraryDevice graph_device;
  device.Poison();
  // RunCaptured runs the graph twice: the second run finds the memory as the first one left it.
  RunCaptured(graph_device,
              [&] { device.Forward(static_cast<cudaStream_t>(graph_device.stream()), /*with_argmax=*/false); });
  ExpectSameBits(device.scores(), expected);
}

// Rows that do not begin at multiples of 16 bytes take the portable kernels, with or without matches.
TEST_F(GpuLibraryServiceTest, PortableKernelsGiveTheSameBits) {
  for (const int32_t type : {MAXSIM_F16, MAXSIM_I8}) {
    for (const int32_t scale_of : {MAXSIM_SCALE_PER_SEQUENCE, MAXSIM_SCALE_PER_TOKEN}) {
      for (const int64_t num_queries : {1, 3, 9}) {
        LibraryShape shape;
        shape.type = type;
        shape.dim = 128;
        shape.num_queries = num_queries;
        shape.num_documents = 50;
        shape.max_query_tokens = 40;
        shape.max_document_tokens = 150;
        shape.document_scale_of = scale_of;
        shape.scaled_tokens = scale_of == MAXSIM_SCALE_PER_TOKEN;
        shape.lengths = true;
        shape.document_mask = num_queries == 3;
        shape.weights = true;
        SCOPED_TRACE(testing::PrintToString(shape));
        const LibraryCase library_case(shape, TestSeed());
        DeviceCase device(library_case);
        device.Forward(stream_.get());
        const std::vector<float> expected = device.scores();
        const std::vector<int32_t> matches = device.argmax();
        maxsim_tokens documents = *device.call().documents;
        const size_t bytes = library_case.documents.rows.size();
        const cuda::DeviceBuffer moved = PoisonedBuffer(bytes + 8);
        ASSERT_EQ(cudaMemcpy(moved.as<char>() + 8, documents.rows, bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
        documents.rows = moved.as<char>() + 8;
        device.call().documents = &documents;
        for (const bool with_matches : {true, false}) {
          device.Poison();
          device.Forward(stream_.get(), with_matches);
          ExpectSameBits(device.scores(), expected);
          if (with_matches) {
            EXPECT_EQ(device.argmax(), matches);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace maxsim::test
