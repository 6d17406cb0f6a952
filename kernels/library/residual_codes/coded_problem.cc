#include "kernels/library/residual_codes/coded_problem.h"

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "kernels/library/cpu/host_tokens.h"
#include "kernels/library/problem/read_struct.h"
#include "kernels/library/residual_codes/residual_decoder.h"

namespace maxsim::library {
namespace {

// The size of the structure in the oldest version of the header with which programs may have been compiled.
constexpr size_t kFirstCodesSize = 64;
static_assert(sizeof(maxsim_residual_codes) == kFirstCodesSize);

Status CheckCodes(const Problem& problem, const maxsim_residual_codes& codes) {
  if (codes.nbits != 1 && codes.nbits != 2 && codes.nbits != 4 && codes.nbits != 8) {
    return InvalidArgument(Text("codes", ".nbits", codes.nbits, "must be 1, 2, 4 or 8"));
  }
  if (int64_t{problem.dim()} * codes.nbits % 8 != 0) {
    return InvalidArgument(Text("documents", ".dim", problem.dim(),
                                "buckets of codes.nbits = " + std::to_string(codes.nbits) +
                                    " bits fill bytes where it is a multiple of " + std::to_string(8 / codes.nbits)));
  }
  const bool any_row = problem.documents.num_rows > 0;
  return First(
      CheckRange("codes", ".bit_order", codes.bit_order, MAXSIM_COLBERT_BITS, MAXSIM_LOW_BITS_FIRST),
      CheckRange("codes", ".number_type", codes.number_type, MAXSIM_INT64, MAXSIM_INT32),
      CheckRange("codes", ".normalize", codes.normalize, 0, 1),
      CheckRange("codes", ".num_centroids", codes.num_centroids, any_row ? 1 : 0, std::numeric_limits<int32_t>::max()),
      CheckPresent("codes", ".centroid_numbers", codes.centroid_numbers, any_row),
      CheckPresent("codes", ".residuals", codes.residuals, any_row),
      CheckPresent("codes", ".centroids", codes.centroids, any_row),
      CheckPresent("codes", ".bucket_weights", codes.bucket_weights, any_row));
}

// Checks the centroid numbers of those tokens of a document that count. `tokens` is scratch.
Status CheckNumbers(const CodedProblem& problem, const HostTokens& documents, int64_t document,
                    std::vector<int32_t>* tokens) {
  documents.CountingTokens(document, tokens);
  for (const int32_t token : *tokens) {
    const int64_t number = CentroidNumber(problem.codes, documents.Begin(document) + token);
    if (number < 0 || number >= problem.codes.num_centroids) {
      return InvalidArgument("centroid number of document " + std::to_string(document) + ", token " +
                             std::to_string(token) + " is " + std::to_string(number) + "; there are " +
                             std::to_string(problem.codes.num_centroids) + " centroids");
    }
  }
  return {};
}

}  // namespace

Status ReadCodedProblem(const maxsim_call* call, const maxsim_residual_codes* codes, CodedProblem* problem) {
  if (Status status = ReadProblem(call, &problem->problem, DocumentRows::kCoded); !status.ok()) return status;
  if (Status status = ReadStruct("codes", codes, kFirstCodesSize, &problem->codes); !status.ok()) return status;
  return CheckCodes(problem->problem, problem->codes);
}

Status CheckHostCodes(const CodedProblem& coded) {
  const Problem& problem = coded.problem;
  if (Status status = CheckHostIndices(problem); !status.ok()) return status;
  const HostTokens documents(problem.documents);
  std::vector<int32_t> tokens;
  // Documents that no list names are not read.
  const bool listed = problem.call.candidates != nullptr;
  const int64_t count = listed ? problem.num_pairs : problem.documents.num_sequences;
  for (int64_t idx = 0; idx < count; ++idx) {
    const int64_t document = listed ? problem.call.candidates[idx] : idx;
    if (Status status = CheckNumbers(coded, documents, document, &tokens); !status.ok()) return status;
  }
  return {};
}

}  // namespace maxsim::library
