// The instruction sets of the CPU backend: what each one offers, and which of them this machine has.
//
// Every kernel works on "steps". A step is 32 bits: one FP32 column, or two BF16 columns that one instruction
// multiplies and adds. Query tokens are packed into panels (kernels/cpu/pack.h) so that one vector holds the same step
// of as many query tokens as it has lanes; a step of a document token is broadcast against it. The similarity matrix
// exists only in registers, a tile at a time.
//
// Order of additions, for every shape and blocking: columns are added one step after the other inside a block of
// `block_steps`, starting from zero; the sums of the blocks are added in order. It is fixed for an instruction set and
// differs between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxsim::cpu {

// Rows of one document: [num_rows, num_steps] steps, packed. Rows up to the next multiple
// of Isa::row_multiple are readable and repeat the last one, which leaves a maximum as it is.
struct RowBlock {
  const void* rows = nullptr;
  size_t num_rows = 0;
  size_t num_steps = 0;
};

// Query tokens packed by PackQueryToken for the same step form, in 64-byte aligned memory.
struct QueryPanels {
  const uint32_t* panels = nullptr;
  size_t num_vectors = 0;  // of Isa::lanes query tokens
};

// The two loops over one step form.
struct Kernels {
  size_t block_steps = 0;

  // maxima[lane] = max(maxima[lane], every row's similarity with that lane's query token). `maxima` has num_vectors *
  // lanes elements; `partial` is scratch of PartialSize elements.
  void (*update_maxima)(const RowBlock& block, const QueryPanels& queries, float* partial, float* maxima) = nullptr;

  // similarities[row, lane], the numbers update_maxima takes the maximum of. [rows rounded up to row_multiple,
  // num_vectors * lanes].
  void (*similarities)(const RowBlock& block, const QueryPanels& queries, float* similarities) = nullptr;
};

struct Isa {
  const char* name;
  size_t lanes;          // FP32 elements of a vector
  size_t panel_vectors;  // vectors of a full panel
  size_t row_multiple;   // every tile height divides it
  Kernels f32;
  Kernels bf16_pairs;  // null functions: BF16 is widened to FP32 instead

  // Scratch that update_maxima needs for blocks of up to `max_rows` rows (a multiple of row_multiple).
  size_t PartialSize(size_t max_rows) const { return max_rows * panel_vectors * lanes; }
};

extern const Isa kPortableIsa;
#if defined(__x86_64__)
extern const Isa kAvx2Isa;
extern const Isa kAvx512Isa;
extern const Isa kAvx512Bf16Isa;
#endif

// Those this machine can run, best first; the portable one is always there, last.
const std::vector<const Isa*>& AvailableIsas();

}  // namespace maxsim::cpu
