// RUN: ocannl-opt %s -t llvm | filecheck %s

// More than 32 calls are a table: of each the function that runs it, the kernel, how many tasks and arguments it has, and
// of each argument its slot and the bytes from the address there. Kernels whose arguments have the same types are run by
// the same function.
loops.func @many indices (n = 4) {
  %x = assign.node "x" constant : memref<4x64x16xf32>
  %y = assign.node "y" on_device : memref<64x16xf32>
  %h = assign.node "h" local at 64 : memref<8xf32>
  loops.nest "y" (i = 64, j = 16) schedule <parallel = (i : 8), lanes = j : 16> {
    %v = loops.load %x[n, i, j]
    loops.store %v, %y[i, j]
  }
  loops.nest "h" (i = 8) { %v = loops.load %y[3, i] loops.store %v, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
  loops.nest "h" (i = 8) { %v = loops.load %h[i] %r = arith.addf %v, %v : f32 loops.store %r, %h[i] }
}
// CHECK-LABEL: define internal void @"many.h"(ptr noalias %p0, ptr noalias %p1)
// CHECK-LABEL: define internal void @"share.ppi"(ptr %frame)
// CHECK-LABEL: define internal void @"on_frame.pp"(ptr %frame)
// CHECK-NEXT:    %kernel.slot = getelementptr i64, ptr %frame, i64 1
// CHECK-NEXT:    %kernel = load ptr, ptr %kernel.slot, align 8
// CHECK-NEXT:    %a0.slot = getelementptr i64, ptr %frame, i64 3
// CHECK-NEXT:    %a0 = load ptr, ptr %a0.slot, align 8
// CHECK-NEXT:    %a1.slot = getelementptr i64, ptr %frame, i64 4
// CHECK-NEXT:    %a1 = load ptr, ptr %a1.slot, align 8
// CHECK-NEXT:    call void %kernel(ptr %a0, ptr %a1)
// CHECK:       @"calls of many" = internal constant { { ptr, i64, ptr, i64, [6 x i64] }, { ptr, i64, ptr, i64, [4 x i64] }, { ptr, i64, ptr, i64, [2 x i64] },
// CHECK-SAME:    { { ptr, i64, ptr, i64, [6 x i64] } { ptr @"share.ppi", i64 8, ptr @"many.y", i64 3, [6 x i64] [i64 1, i64 0, i64 2, i64 0, i64 3, i64 0] },
// CHECK-SAME:    { ptr, i64, ptr, i64, [4 x i64] } { ptr @"on_frame.pp", i64 1, ptr @"many.h", i64 2, [4 x i64] [i64 2, i64 192, i64 0, i64 64] },
// CHECK-SAME:    { ptr, i64, ptr, i64, [2 x i64] } { ptr @"on_frame.p", i64 1, ptr @"many.h.1", i64 1, [2 x i64] [i64 0, i64 64] },
// CHECK-LABEL: define void @"routine many"(ptr %args)
// CHECK-NEXT:    %frame = alloca [6 x i64], align 8
// CHECK-NEXT:    %stop = getelementptr i64, ptr @"calls of many", i64 204
// CHECK-NEXT:    %team.slot = getelementptr i64, ptr %args, i64 4
// CHECK-NEXT:    %team = load ptr, ptr %team.slot, align 8
// CHECK-NEXT:    call void @"run calls"(ptr @"calls of many", ptr %stop, ptr %args, ptr %frame, ptr %team)
// CHECK-NEXT:    ret void
// CHECK-LABEL: define internal void @"run by team"
// CHECK-LABEL: define internal void @"run calls"
