// Devices, storage types and widths that the tests of the planners share.
#pragma once

#include <cstdint>

#include "kernels/plan/device_limits.h"
#include "kernels/scalar_type.h"

namespace maxsim {

// The numbers are: multiprocessors, bytes of shared memory per thread block, bytes of shared memory per multiprocessor,
// reserved bytes per thread block, and threads per multiprocessor.
inline constexpr DeviceLimits kA100{108, 166912, 167936, 1024, 2048};
// The A10 has compute capability 8.6 and the least shared memory of these devices.
inline constexpr DeviceLimits kA10{72, 101376, 102400, 1024, 1536};
inline constexpr DeviceLimits kH200{132, 232448, 233472, 1024, 2048};
inline constexpr DeviceLimits kHopper{132, 232448, 233472, 1024, 2048, /*hopper=*/true};
inline constexpr DeviceLimits kOrin{8, 166912, 167936, 1024, 1536};
inline constexpr DeviceLimits kDevices[] = {kA100, kA10, kH200, kHopper, kOrin};

inline constexpr ScalarType kTypes[] = {ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32, ScalarType::kI8};
inline constexpr int32_t kDims[] = {8,   9,   15,  16,  17,  48,  63,   64,   65,   96,   100,  104,  127, 128,
                                    129, 256, 300, 384, 512, 768, 1000, 1024, 1025, 1536, 2048, 4095, 4096};

}  // namespace maxsim
