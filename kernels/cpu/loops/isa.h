// The instruction sets of the CPU backend: the kernels of each one, and which of them this machine can run.
//
// Every kernel works on "steps". A step is 32 bits of one token: one FP32 column, two columns of 16 bits or four of 8
// bits. Query tokens are packed into panels (kernels/cpu/loops/pack.h), in which one vector register has the same step
// of several query tokens, one per lane. A step of a document token is broadcast to all lanes and multiplied with this
// vector. AMX instead multiplies tiles of sixteen steps of sixteen document tokens, and I8MM two steps of two document
// tokens. Similarities are never written to memory as a whole matrix, except for Kernels::similarities.
//
// A floating-point similarity is added up in a fixed order: inside a block of columns (128, or the 32 of one AMX
// instruction) step by step, starting from zero; then the sums of the blocks in order. So one instruction set always
// gives the same bits, but different sets give different ones. Integer similarities are exact, and so the same
// everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxsim::cpu {

// How a step stores columns of a token. In a query token's last step, columns beyond `dim` are zero, so documents may
// have any value in these columns.
enum class StepForm {
  kF32,              // one FP32 column per step, widened from the stored type (I8: the integers)
  kBf16Pairs,        // two BF16 columns per step, the first in the lower half
  kI16Pairs,         // two I8 columns, sign-extended to 16 bits
  kI8Quads,          // four I8 columns
  kUnsignedI8Quads,  // four I8 columns; 128 is added to document columns to make them unsigned, so a similarity is too
                     // large by 128 times the sum of the query token's columns, which the caller subtracts
};

// Rows (token vectors) of one document: [num_rows, num_steps] steps, not necessarily aligned. The memory after them
// must repeat the last row up to the next multiple of Feed::row_multiple rows, because kernels read whole tiles
// (repeating a row does not change a maximum). With Feed::in_place this is needed only for fewer than row_multiple
// rows.
struct RowBlock {
  const void* rows = nullptr;
  size_t num_rows = 0;
  size_t num_steps = 0;

  // The memory from which the next block will be made. The kernel prefetches it while it multiplies.
  const char* next = nullptr;
  size_t next_bytes = 0;
};

// Query tokens packed by PackQueryToken in the kernel's step form, in 64-byte aligned memory.
struct QueryPanels {
  const uint32_t* panels = nullptr;
  size_t num_vectors = 0;  // vectors of Isa::lanes query tokens
};

// The form in which a kernel expects rows and panels.
struct Feed {
  StepForm form = StepForm::kF32;
  size_t row_multiple = 1;   // every tile height divides it
  size_t step_multiple = 1;  // rows and panels have whole multiples of this many steps
  bool in_place = false;     // rows that are stored as steps are not copied, because a copy gains nothing
};

// The kernels of an instruction set for one step form. Similarity is float, or int32_t for integer columns.
template <typename Similarity>
struct Kernels {
  Feed feed;

  // Sets each maxima[lane] to the maximum of its present value and the similarities of all rows with the query token in
  // that lane. `maxima` has num_vectors * lanes elements; `partial` is scratch of Isa::PartialSize elements.
  void (*update_maxima)(const RowBlock& block, const QueryPanels& queries, Similarity* partial,
                        Similarity* maxima) = nullptr;

  // Writes the similarity of every row and lane to `similarities`: [num_rows rounded up to row_multiple, num_vectors *
  // lanes].
  void (*similarities)(const RowBlock& block, const QueryPanels& queries, Similarity* similarities) = nullptr;

  // If not null, a thread must call `enter` before its first call of update_maxima or similarities, and `leave` after
  // its last one.
  void (*enter)() = nullptr;
  void (*leave)() = nullptr;
};

struct Isa {
  const char* name;
  size_t lanes;          // 32-bit elements of a vector
  size_t panel_vectors;  // vectors of a full panel
  Kernels<float> f32;
  Kernels<float> bf16;  // its functions are null if BF16 is widened to FP32 for this instruction set
  Kernels<int32_t> i8;

  // Returns the number of elements of the scratch `partial` for blocks of up to `max_rows` rows (a multiple of
  // row_multiple).
  size_t PartialSize(size_t max_rows) const { return max_rows * panel_vectors * lanes; }
};

extern const Isa kPortableIsa;
#if defined(__x86_64__)
extern const Isa kAvx2Isa;
extern const Isa kAvx512Isa;
extern const Isa kAvx512VnniIsa;
extern const Isa kAvx512Bf16Isa;
extern const Isa kAmxIsa;
#elif defined(__aarch64__)
extern const Isa kNeonIsa;
extern const Isa kNeonDotIsa;
extern const Isa kNeonI8mmIsa;
#endif

// Returns the instruction sets that this machine can run, best first. The last one is always the portable one.
// Thread-safe.
const std::vector<const Isa*>& AvailableIsas();

}  // namespace maxsim::cpu
