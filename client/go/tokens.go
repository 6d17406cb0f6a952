package maxsim

import (
	"encoding/binary"
	"math"

	"example.org/maxsim/client/go/maxsimv1"
)

// TokenMatrix has the token vectors of a query or a document: NumTokens rows of Dim values each, row after row.
type TokenMatrix = maxsimv1.TokenMatrix

// Float32Tokens makes a matrix of len(values) / dim token vectors. `values` has one vector after the other. If the
// length is not a multiple of dim, the server refuses the matrix.
func Float32Tokens(values []float32, dim int) *TokenMatrix {
	data := make([]byte, 4*len(values))
	for i, value := range values {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(value))
	}
	return rawTokens(maxsimv1.DataType_DATA_TYPE_F32, len(values), dim, data)
}

// Float16Tokens makes a matrix of the bits of FP16 values, otherwise as Float32Tokens.
func Float16Tokens(bits []uint16, dim int) *TokenMatrix {
	return shortTokens(maxsimv1.DataType_DATA_TYPE_F16, bits, dim)
}

// BFloat16Tokens makes a matrix of the bits of BF16 values, otherwise as Float32Tokens.
func BFloat16Tokens(bits []uint16, dim int) *TokenMatrix {
	return shortTokens(maxsimv1.DataType_DATA_TYPE_BF16, bits, dim)
}

// RowTokens makes a matrix whose rows are the token vectors. It returns an error if they differ in length.
func RowTokens(rows [][]float32) (*TokenMatrix, error) {
	if len(rows) == 0 {
		return Float32Tokens(nil, 0), nil
	}
	dim := len(rows[0])
	values := make([]float32, 0, dim*len(rows))
	for i, row := range rows {
		if len(row) != dim {
			return nil, invalid("rows", "[%d] has %d values and rows[0] has %d; must be equal", i, len(row), dim)
		}
		values = append(values, row...)
	}
	return Float32Tokens(values, dim), nil
}

// FloatRows returns the token vectors of a matrix of FP32, FP16 or BF16 values. It returns an error for another type,
// and for a matrix whose Data does not have NumTokens * Dim values.
func FloatRows(matrix *TokenMatrix) ([][]float32, error) {
	width := 2
	switch matrix.GetDtype() {
	case maxsimv1.DataType_DATA_TYPE_F32:
		width = 4
	case maxsimv1.DataType_DATA_TYPE_F16, maxsimv1.DataType_DATA_TYPE_BF16:
	default:
		return nil, invalid("matrix", "has the type %v; must be F32, F16 or BF16", matrix.GetDtype())
	}
	dim := int(matrix.Dim)
	if uint64(len(matrix.Data)) != uint64(width)*uint64(matrix.NumTokens)*uint64(matrix.Dim) {
		return nil, invalid("matrix", "has %d bytes, which are not %d vectors of %d values", len(matrix.Data),
			matrix.NumTokens, matrix.Dim)
	}
	rows := make([][]float32, matrix.NumTokens)
	for i := range rows {
		rows[i] = make([]float32, dim)
		for j := range rows[i] {
			bytes := matrix.Data[width*(i*dim+j):]
			switch matrix.Dtype {
			case maxsimv1.DataType_DATA_TYPE_F32:
				rows[i][j] = math.Float32frombits(binary.LittleEndian.Uint32(bytes))
			case maxsimv1.DataType_DATA_TYPE_BF16:
				rows[i][j] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(bytes)) << 16)
			default:
				rows[i][j] = fromFloat16(binary.LittleEndian.Uint16(bytes))
			}
		}
	}
	return rows, nil
}

func shortTokens(dtype maxsimv1.DataType, bits []uint16, dim int) *TokenMatrix {
	data := make([]byte, 2*len(bits))
	for i, value := range bits {
		binary.LittleEndian.PutUint16(data[2*i:], value)
	}
	return rawTokens(dtype, len(bits), dim, data)
}

func rawTokens(dtype maxsimv1.DataType, numValues, dim int, data []byte) *TokenMatrix {
	matrix := &TokenMatrix{Dtype: dtype, Dim: uint32(dim), Data: data}
	if dim > 0 {
		matrix.NumTokens = uint32(numValues / dim)
	}
	return matrix
}

// fromFloat16 converts the bits of an FP16 value. Every such value is exact in FP32.
func fromFloat16(bits uint16) float32 {
	sign := uint32(bits>>15) << 31
	exponent, fraction := uint32(bits>>10)&0x1f, uint32(bits)&0x3ff
	switch exponent {
	case 0: // zero, or a subnormal: a multiple of 2^-24
		value := float32(fraction) / (1 << 24)
		return math.Float32frombits(math.Float32bits(value) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}
