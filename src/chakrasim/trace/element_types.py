"""Types of tensor elements, as recorders spell them."""

from __future__ import annotations

from typing import Final

#: Bytes of an element. Names as record_param_comms ("Float"), shapes ("float", "long int", "c10::BFloat16") and
#: torch ("bfloat16") write them, lower case without prefix.
_SIZES: Final = {
    **dict.fromkeys(("byte", "char", "bool", "unsigned char", "signed char", "uint8", "int8", "qint8", "quint8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"), 1),
    **dict.fromkeys(("bits1x8", "bits2x4", "bits4x2", "bits8", "quint4x2", "quint2x4", "float4_e2m1fn_x2"), 1),
    **dict.fromkeys(("short", "half", "bfloat16", "uint16", "int16", "float16", "short int", "bits16"), 2),
    **dict.fromkeys(("int", "float", "uint32", "int32", "float32", "complexhalf", "qint32", "unsigned int"), 4),
    **dict.fromkeys(("long", "double", "uint64", "int64", "float64", "long int", "complexfloat", "long long"), 8),
    **dict.fromkeys(("unsigned long", "complex<float>", "complex64"), 8),
    **dict.fromkeys(("complexdouble", "complex<double>", "complex128"), 16),
}


def element_bytes(dtype: str) -> int:
    """Bytes of an element of this type, 0 where the type is not known."""
    name = dtype.strip().lower().removeprefix("c10::").removeprefix("torch.").removeprefix("at::")
    return _SIZES.get(name, 0)
