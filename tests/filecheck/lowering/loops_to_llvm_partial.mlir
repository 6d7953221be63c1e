// RUN: ocannl-opt %s --cpu x86-64-v4 -t llvm | filecheck %s --check-prefix V4
// RUN: ocannl-opt %s --cpu x86-64-v3 -t llvm | filecheck %s --check-prefix V3

// Six lanes of eight: a masked store where the processor has one, else parts of powers of two, as LLVM splits it.
loops.func @partial {
  %x = assign.node "x" constant : memref<4x6xf32>
  %y = assign.node "y" on_device : memref<4x6xf32>
  loops.nest "y" (i = 4, j = 6) schedule <order = (i, j), lanes = j : 8> {
    %v = loops.load %x[i, j]
    loops.store %v, %y[i, j]
  }
}
// V4: call void @llvm.masked.store.v8f32.p0(<8 x float> %{{.*}}, ptr %{{.*}}, i32 4, <8 x i1> <i1 1, i1 1, i1 1, i1 1, i1 1, i1 1, i1 0, i1 0>)
// V3:      [[PART:%.*]] = shufflevector <8 x float> %{{.*}}, <8 x float> poison, <6 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5>
// V3-NEXT: store <6 x float> [[PART]], ptr %{{.*}}, align 4
