/*
 * For Wine prefixes only: the one function of bcryptprimitives.dll that programs of Rust and Go import and that Wine 8 lacks.
 * Random bytes come from advapi32's RtlGenRandom, whose exported name is SystemFunction036.
 */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length)
{
    while (length > 0) {
        ULONG part = length > 0x10000000 ? 0x10000000 : (ULONG)length;
        if (!SystemFunction036(data, part)) {
            return FALSE;
        }
        data += part;
        length -= part;
    }
    return TRUE;
}
