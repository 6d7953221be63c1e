// RUN: ocannl-opt %s --split-input-file --verify-diagnostics | filecheck %s

loops.func @f {
  %x = assign.node "x" on_device : memref<64xf32>
  kernel.launch "x" block (t = 64) {
    kernel.where t < 32 {
      kernel.barrier
    }
  }
}

// CHECK: `kernel.barrier`: all threads of a block come here together, but `t < 32` depends on `t`

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<64xf32>
  kernel.launch "x" block (t = 64) registers (r = 2) {
    %s = loops.reduce add (k = 4) where k + r < 4 : f32 {
      %c = arith.constant 1.0 : f32
      %d = kernel.combine add %c across (t)
      loops.yield %d
    }
  }
}

// CHECK: `kernel.combine`: all threads of a block come here together, but `k + r < 4` depends on `r`

// -----

loops.func @f {
  kernel.launch "x" block (t = 64) {
    %c = arith.constant 1.0 : f32
    %d = kernel.combine add %c across (t)
  }
}

// CHECK: `kernel.combine`: combining between warps needs a shared array of f32

// -----

loops.func @f {
  kernel.launch "x" block (t = 64) {
    %s = kernel.shared memref<32xf32>
    %c = arith.constant 1.0 : f32
    %d = kernel.combine add %c across (t) via %s
  }
}

// CHECK: `kernel.combine`: combining 64 threads needs a shared array of as many elements

// -----

loops.func @f {
  kernel.launch "x" grid (b = 3) block (t = 32) {
    %c = arith.constant 1.0 : f32
    %d = kernel.combine add %c across (b)
  }
}

// CHECK: `kernel.combine`: `b` is no variable of the block

// -----

loops.func @f {
  kernel.launch "x" block (s = 2, t = 513) {
  }
}

// CHECK: `kernel.launch`: a block has at most 1024 threads, this one has 1026

// -----

loops.func @f {
  kernel.launch "x" {
    %a = kernel.shared memref<256x128xf64>
  }
}

// CHECK: `kernel.launch`: a block has at most 232448 bytes of shared memory, this one has 262144

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<100xf32>
  kernel.launch "x" grid (b = 4) block (t = 32) {
    kernel.where 32*b + t < 101 {
      %l = loops.load %x[32*b + t]
    }
  }
}

// CHECK: `loops.load`: index 32*b + t runs from 0 to 100, outside axis 0 of size 100

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<100xf32>
  kernel.launch "x" grid (b = 4) block (t = 32) {
    %s = kernel.shared memref<16xf32>
    kernel.copy %x[32*b + k] to %s[k] over (k = 32) where 32*b + k < 100
  }
}

// CHECK: `kernel.copy`: index k runs from 0 to 31, outside axis 0 of size 16

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<100xf32>
  kernel.launch "x" grid (b = 4) block (t = 32) {
    %l = loops.load %x[t]
    loops.store %l, %x[t]
  }
}

// CHECK: `kernel.launch`: threads that differ in `b` store to the same cell

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<100xf32>
  kernel.launch "x" grid (b = 4) block (t = 32) {
    kernel.where 2*t - 1 < 32 {
      %l = loops.load %x[t]
    }
  }
}

// CHECK: `kernel.where`: `2*t - 1` may be negative, and has an upper bound only

// -----

loops.func @f {
  kernel.launch "x" grid (b = 4) block (b = 32) {
  }
}

// CHECK: `kernel.launch`: an iteration variable is declared twice

// -----

loops.func @f {
  kernel.launch "x" grid (b = 0) {
  }
}

// CHECK: `kernel.launch`: a variable of a kernel has at least one value

// -----

loops.func @f {
  kernel.launch "x" grid (b = 4) {
    kernel.for (b = 3) {
    }
  }
}

// CHECK: `kernel.for`: `b` is already an iteration variable around it

// -----

loops.func @f {
  kernel.launch "x" grid (b = 4) {
    kernel.where b < 3 {
      %s = kernel.shared memref<4xf32>
    }
  }
}

// CHECK: `kernel.shared`: shared arrays stand directly in a kernel

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<100xf32>
  kernel.launch "outer" grid (i = 100) {
    kernel.launch "x" {
    }
  }
}

// CHECK: `kernel.launch`: a kernel stands in a loops.func

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<100xf32>
  loops.nest "x" (i = 100) {
    %s = loops.reduce add (k = 4) where k < 3 : f32 {
      %c = arith.constant 1.0 : f32
      loops.yield %c
    }
    loops.store %s, %x[i]
  }
}

// CHECK: `loops.reduce`: only in a kernel a reduction leaves points out

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<8x30xf32>
  kernel.launch "x" block (t = 32) {
    %s = kernel.shared memref<8x32xf32>
    kernel.copy %x[i, k] to %s[i, k] over (i = 8, k = 32) by 4 where k < 30
  }
}

// CHECK: `kernel.copy`: 4 neighbours along `k` are not aligned in the array

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<8x32xf32>
  kernel.launch "x" block (t = 32) {
    %s = kernel.shared memref<8x32xf32>
    kernel.copy %x[i, k] to %s[i, k] over (i = 8, k = 32) by 4 where k < 30
  }
}

// CHECK: `kernel.copy`: `k < 30` divides 4 neighbours

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<8x32xf32>
  kernel.launch "x" block (t = 32) {
    %s = kernel.shared memref<8x32xf32>
    kernel.copy %x[i, k] to %s[i, k] over (i = 8, k = 6) by 4
  }
}

// CHECK: `kernel.copy`: threads cannot take 4 of 6 neighbours at a time

// -----

loops.func @f {
  %x = assign.node "x" local at 72 : memref<8x32xf32>
  kernel.launch "x" block (t = 32) {
    %s = kernel.shared memref<8x32xf32>
    kernel.copy %x[i, k] to %s[i, k] over (i = 8, k = 32) by 4
  }
}

// CHECK: `kernel.copy`: 4 neighbours are not aligned where the arena has the array

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<8x32xf16>
  kernel.launch "x" block (t = 32) {
    %s = kernel.shared memref<8x32xf16>
    kernel.copy async %x[i, k] to %s[i, k] over (i = 8, k = 32)
  }
}

// CHECK: `kernel.copy`: an asynchronous copy moves 4, 8 or 16 bytes at a time, this one 2

// -----

loops.func @f {
  kernel.launch "x" block (t = 32) {
    kernel.where t < 16 {
      kernel.wait 0
    }
  }
}

// CHECK: `kernel.wait`: all threads of a block come here together, but `t < 16` depends on `t`

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<32xf32>
  kernel.launch "x" block (t = 32) {
    %s = kernel.shared memref<2x32xf32, "ring">
    %l = loops.load %s[t, 0]
    loops.store %l, %x[t]
  }
}

// CHECK: `kernel.launch`: threads would use different arrays of a ring: `t`

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<32xf32, "ring">
}

// CHECK: `assign.node`: a ring is a shared array, not a node

// -----

loops.func @f {
  kernel.launch "x" block (t = 32) {
    %s = kernel.shared memref<2x32xf32, "fast">
  }
}

// CHECK: `kernel.launch`: a shared array is plain, "swizzled", or a "ring" of such, found "fast"

// -----

loops.func @f {
  kernel.launch "x" block (l = 32) registers (h = 2, q = 2, c = 2) {
    %a = kernel.shared memref<2x2x32xi32>
    %0 = loops.load %a[q, h, l]
    %1 = loops.load %a[0, q, l]
    %2 = kernel.mma %0, %1 rows (h) deep (q) columns (c)
  }
}

// CHECK: `kernel.mma`: both operands are f64, f32, f16, bf16, f8E4M3FN or f8E5M2, found i32 and i32

// -----

loops.func @f {
  kernel.launch "x" block (l = 32) registers (h = 2, q = 2, c = 2) {
    %a = kernel.shared memref<2x2x32xf64>
    %0 = loops.load %a[q, h, l]
    %1 = loops.load %a[0, q, l]
    %2 = kernel.mma %0, %1 rows (h) deep (q) columns (c)
  }
}

// CHECK: `kernel.mma`: the depth of f64 has 0 variables, found 1

// -----

loops.func @f {
  kernel.launch "x" block (l = 32) registers (h = 2, q = 2, c = 2, e = 2) {
    %a = kernel.shared memref<2x2x32xf32>
    %0 = loops.load %a[q, h, l]
    %1 = loops.load %a[0, q, l]
    %2 = kernel.mma %0, %1 rows (h) deep (q, e) columns (c)
  }
}

// CHECK: `kernel.mma`: the depth of f32 has 1 variables, found 2

// -----

loops.func @f {
  kernel.launch "x" block (l = 32) registers (h = 2, q = 2) {
    %a = kernel.shared memref<2x2x32xf32>
    %0 = loops.load %a[q, h, l]
    %1 = loops.load %a[0, q, l]
    %2 = kernel.mma %0, %1 rows (h) deep (q) columns (c)
  }
}

// CHECK: `kernel.mma`: `c` is no register variable with two values

// -----

loops.func @f {
  kernel.launch "x" block (l = 16) registers (h = 2, q = 2, c = 2) {
    %a = kernel.shared memref<2x2x32xf32>
    %0 = loops.load %a[q, h, l]
    %1 = loops.load %a[0, q, l]
    %2 = kernel.mma %0, %1 rows (h) deep (q) columns (c)
  }
}

// CHECK: `kernel.mma`: the 16 threads of the block are no whole warps

// -----

loops.func @f {
  kernel.launch "x" block (l = 32) registers (h = 2, q = 2, c = 2) {
    %a = kernel.shared memref<2x2x32xf32>
    %0 = loops.load %a[q, h, l]
    %1 = loops.load %a[0, q, l]
    %2 = kernel.mma %0, %1 rows (h) deep (q) columns (h)
  }
}

// CHECK: `kernel.mma`: a variable stands for two things

// -----

loops.func @f {
  kernel.launch "x" block (l = 32) registers (h = 2, q = 2, c = 2) {
    %a = kernel.shared memref<2x2x32xf32>
    %0 = loops.load %a[q, h, l]
    %1 = loops.load %a[0, q, l]
    %2 = loops.reduce add (k = 3) : f32 {
      %3 = kernel.mma async %0, %1 rows (h) deep (q) columns (c)
      loops.yield %3
    }
  }
}

// CHECK: `kernel.mma`: an async product is that of a reduction, which another one adds up, and nothing else uses it

// -----

loops.func @f {
  kernel.launch "x" block (l = 32) registers (h = 2, q = 2, c = 2) {
    %a = kernel.shared memref<2x2x32xf32>
    %0 = loops.load %a[q, h, l]
    %1 = loops.load %a[0, q, l]
    %2 = loops.reduce add (k = 3) : f32 {
      %3 = loops.reduce add (j = 2) : f32 {
        %4 = kernel.mma async %0, %1 rows (h) deep (q) columns (c)
        loops.yield %4
      }
      %5 = arith.negf %3 : f32
      loops.yield %5
    }
  }
}

// CHECK: `kernel.mma`: an async product is that of a reduction, which another one adds up, and nothing else uses it

// -----

loops.func @f {
  kernel.launch "x" block (l = 32) registers (h = 2, q = 2, c = 2) {
    %a = kernel.shared memref<2x2x32xf32>
    %0 = loops.load %a[q, h, l]
    %1 = loops.load %a[h, q, l]
    %2 = kernel.mma %0, %1 rows (h) deep (q) columns (c)
  }
}

// CHECK: `kernel.mma`: an operand depends on `h`, which is not its own

// -----

loops.func @f {
  kernel.launch "x" block (l = 64) registers (h = 2, q = 2, c = 2) {
    %a = kernel.shared memref<2x2x64xf32>
    kernel.where l < 32 {
      %0 = loops.load %a[q, h, l]
      %1 = loops.load %a[0, q, l]
      %2 = kernel.mma %0, %1 rows (h) deep (q) columns (c)
    }
  }
}

// CHECK: `kernel.mma`: all threads of a block come here together, but `l < 32` depends on `l`

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<8x16xf32>
  kernel.launch "x" grid (b = 8) block (t = 16) {
    %s = kernel.shared memref<16xf32>
    kernel.copy %x[b, t] to %s[t] over (t = 16)
  }
}

// CHECK: `kernel.copy`: `t` is already an iteration variable around it

// -----

loops.func @f {
  kernel.launch "x" grid (i = 4) {
    %u = assign.node "u" local : memref<2xf32>
  }
}

// CHECK: {{:[0-9]+:[0-9]+}}: `kernel.launch`: a kernel computes numbers, found `assign.node`

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<8xi32>
  kernel.launch "x" block (t = 8) {
    %0 = loops.load %x[t]
    kernel.if %0 {
      loops.store %0, %x[t]
    }
  }
}

// CHECK: `kernel.if`: the condition is an i1, found i32

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<8xi32>
  kernel.launch "x" block (t = 8) {
    %0 = loops.load %x[t]
    %1 = arith.constant 0 : i32
    %2 = arith.cmpi eq, %0, %1 : i32
    kernel.if %2 {
      kernel.barrier
    }
  }
}

// CHECK: `kernel.barrier`: all threads of a block come here together, but not in `kernel.if`

// -----

// A condition tells threads apart that store at a position, no others.
loops.func @f {
  %x = assign.node "x" on_device : memref<8xi32>
  kernel.launch "x" block (t = 8) {
    %0 = loops.load %x[t]
    %1 = arith.constant 0 : i32
    %2 = arith.cmpi eq, %0, %1 : i32
    kernel.if %2 {
      loops.store %0, %x[0]
    }
  }
}

// CHECK: threads that differ in `t` store to the same cell

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<8xf32>
  kernel.launch "x" block (t = 8) registers (r = 2) {
    %a = kernel.own memref<8xf32>
    %0 = loops.load %x[t]
    loops.store %0, %a[t]
  }
}

// CHECK: `kernel.own`: registers have no addresses: `t` is no register variable

// -----

loops.func @f {
  kernel.launch "x" block (t = 8) {
    %a = kernel.own memref<0xf32>
  }
}

// CHECK: `kernel.own`: an array of a thread has static sizes

// -----

loops.func @f {
  kernel.launch "x" block (t = 8) {
    %a = kernel.own memref<2xi9223372036854775808>
  }
}

// CHECK: `kernel.own`: the elements of an array of a thread are floats of up to 64 bits, i1 to i64, or ui8 to ui32, found i9223372036854775808

// -----

loops.func @f {
  kernel.launch "x" block (t = 8) {
    %a = kernel.shared memref<8xf32, strided<[2]>>
  }
}

// CHECK: `kernel.launch`: the elements of a shared array lie row by row, found the layout strided<[2]>

// -----

loops.func @f {
  kernel.launch "x" block (t = 8) {
    kernel.point (i = 2, j = 4) number t {
      kernel.barrier
    }
  }
}

// CHECK: `kernel.barrier`: all threads of a block come here together, but `t` depends on `t`

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<2x3xf32>
  kernel.launch "x" block (t = 8) {
    %c = arith.constant 1.0 : f32
    kernel.point (i = 2, j = 3) number t {
      loops.store %c, %x[i, 0]
    }
  }
}

// CHECK: threads that differ in `t` store to the same cell

// -----

loops.func @f {
  kernel.launch "x" block (t = 8) {
    kernel.point (i = 2) number t - 1 {
    }
  }
}

// CHECK: `kernel.point`: points are counted from 0 on, but `t - 1` may be negative

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<20x64xf16>
  kernel.launch "x" block (t = 8) {
    %s = kernel.shared memref<8x64xf16, "swizzled">
    kernel.copy bulk %x[i, k] to %s[i, k] over (i = 8, k = 64) by 4
  }
}

// CHECK: `kernel.copy`: a bulk copy moves 16 bytes at a time, of no numbered points

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<20x64xf16>
  kernel.launch "x" block (t = 8) {
    %s = kernel.shared memref<8x64xf16>
    kernel.copy bulk %x[i, k] to %s[i, k] over (i = 8, k = 64) by 8
  }
}

// CHECK: `kernel.copy`: a bulk copy is from a node to a swizzled array, over rows and columns

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<20x64xf16>
  kernel.launch "x" block (t = 8) {
    %s = kernel.shared memref<8x64xf16, "swizzled">
    kernel.copy bulk %x[i, k] to %s[i, k] over (i = 8, k = 32) by 8
  }
}

// CHECK: `kernel.copy`: a bulk copy fills a tile

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<64xf16>
  kernel.launch "x" block (t = 8) {
    %s = kernel.shared memref<8x64xf16, "swizzled">
    kernel.copy bulk %x[k] to %s[i, k] over (i = 8, k = 64) by 8
  }
}

// CHECK: `kernel.copy`: a bulk copy has at most 256 rows, and is from a node with 2 to 5 axes, the last one a multiple of 16 bytes

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<20x64xf16>
  kernel.launch "x" block (t = 8) {
    %s = kernel.shared memref<8x64xf16, "swizzled">
    kernel.copy bulk %x[2*i, k] to %s[i, k] over (i = 8, k = 64) by 8
  }
}

// CHECK: `kernel.copy`: `i` and `k` are not each along one axis of the node, `k` along the last

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<20x64xf16>
  kernel.launch "x" block (t = 8) {
    %s = kernel.shared memref<8x64xf16, "swizzled">
    kernel.copy bulk %x[i, k] to %s[i, k] over (i = 8, k = 64) by 8 where i + k < 6
  }
}

// CHECK: `kernel.copy`: `i + k < 6` is not where an axis of the node ends

// -----

loops.func @f {
  %x = assign.node "x" on_device : memref<20x64xf16>
  kernel.launch "x" block (t = 8) {
    %s = kernel.shared memref<8x64xf16, "swizzled">
    %v = loops.load %x[t, 0]
    loops.store %v, %x[t, 0]
    kernel.copy bulk %x[i, k] to %s[i, k] over (i = 8, k = 64) by 8
  }
}

// CHECK: `kernel.copy`: a bulk copy reads what its kernel does not write

// -----

// CHECK: the groups that are not waited for are counted from 0 on
loops.func @negative_products {
  kernel.launch "y" block (t = 128) {
    "kernel.wait_products"() <{pending = #builtin.int<-1>}> : () -> ()
  }
}
