// RUN: ocannl-opt %s --cpu x86-64-v3 -t llvm | filecheck %s --check-prefix X86
// RUN: ocannl-opt %s --cpu neoverse-n1 -t llvm | filecheck %s --check-prefix NEON

// NEON and WebAssembly have instructions for maxima that are NaN if an operand is; x86 needs comparisons.
loops.func @maxima {
  %x = assign.node "x" on_device : memref<64xf32>
  %y = assign.node "y" on_device : memref<64xf32>
  loops.nest "y" (i = 64) schedule <lanes = i : 4> {
    %v = loops.load %x[i]
    %w = loops.load %y[i]
    %m = arith.maximumf %v, %w : f32
    loops.store %m, %y[i]
  }
}
// X86: [[M:%.+]] = select <4 x i1> {{.*}}, <4 x float>
// X86: fcmp uno <4 x float>
// NEON-NOT: fcmp
// NEON: call <4 x float> @llvm.maximum.v4f32(<4 x float> {{.*}}, <4 x float> {{.*}})
// NEON-NOT: fcmp
