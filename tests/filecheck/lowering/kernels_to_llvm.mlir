// RUN: ocannl-opt %s -t llvm | filecheck %s

// On a CPU the blocks and the threads of a kernel run in loops. A barrier ends the loop over threads; what is used
// beyond it has an array.
loops.func @turn {
  %x = assign.node "x" on_device : memref<3x64xf32>
  %y = assign.node "y" on_device : memref<3x64xf32>
  kernel.launch "y" grid (b = 3) block (t = 64) {
    %s = kernel.shared memref<64xf32>
    %l = loops.load %x[b, t]
    %d = arith.addf %l, %l : f32
    loops.store %d, %s[t]
    kernel.barrier
    %r = loops.load %s[-t + 63]
    %sum = arith.addf %r, %l : f32
    loops.store %sum, %y[b, t]
  }
}
// CHECK-LABEL: define internal void @"turn.y"(ptr noalias %p0, ptr noalias %p1)
// CHECK-NEXT:  entry:
// CHECK-NEXT:    [[SHARED:%.*]] = alloca [256 x i8], align 64
// CHECK-NEXT:    [[SLOT:%.*]] = alloca [256 x i8], align 64
// CHECK:       loop1:
// CHECK:       loop2:
// CHECK:         [[L:%.*]] = load float, ptr
// CHECK:         [[D:%.*]] = fadd float [[L]], [[L]]
// CHECK:         store float [[D]], ptr
// CHECK:         store float [[L]], ptr
// CHECK:         br i1 {{.*}}, label %loop2, label %loop2.end
// CHECK:       loop3:
// CHECK:         [[AGAIN:%.*]] = load float, ptr
// CHECK:         [[R:%.*]] = load float, ptr
// CHECK:         fadd float [[R]], [[AGAIN]]
// CHECK:         br i1 {{.*}}, label %loop3, label %loop3.end
// CHECK:         br i1 {{.*}}, label %loop1, label %loop1.end

// A product over register variables is one of registers: eight loads, of which the last variable's are vectors,
// and sixteen multiplications.
loops.func @registers {
  %x = assign.node "x" on_device : memref<8x4xf32>
  %y = assign.node "y" on_device : memref<8x4xf32>
  %z = assign.node "z" on_device : memref<4x4xf32>
  kernel.launch "z" registers (i = 4, j = 4) {
    %s = loops.reduce add (k = 8) : f32 {
      %a = loops.load %x[k, i]
      %b = loops.load %y[k, j]
      %p = arith.mulf %a, %b : f32
      loops.yield %p
    }
    loops.store %s, %z[i, j]
  }
}
// CHECK-LABEL: define internal void @"registers.z"
// CHECK-COUNT-2: load <4 x float>, ptr {{.*}}, align 16
// CHECK-NOT:     load
// CHECK-COUNT-16: call float @llvm.fmuladd.f32
// CHECK-COUNT-4: store <4 x float>
// CHECK-NOT:     store
// CHECK-LABEL: define void @"routine registers"
