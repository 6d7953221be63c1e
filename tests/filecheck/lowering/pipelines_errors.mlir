// RUN: not ocannl-opt %s -p cpus 2>&1 | filecheck %s --check-prefix NAME
// RUN: not ocannl-opt %s -p infer-shape,cse 2>&1 | filecheck %s --check-prefix NEAR
// RUN: not ocannl-opt %s -t llvm 2>&1 | filecheck %s --check-prefix TARGET
// RUN: not ocannl-opt %s -t metal 2>&1 | filecheck %s --check-prefix METAL
// RUN: not ocannl-opt %S/no_such_file.mlir 2>&1 | filecheck %s --check-prefix FILE
// RUN: not ocannl-opt %s -p cpu 2>&1 | filecheck %s --check-prefix SHAPES

// NAME: error: there is no pass `cpus`; did you mean cpu{{.*}}?
// NEAR: error: there is no pass `infer-shape`; did you mean infer-shapes{{.*}}?
// TARGET: error: {{.*}}pipelines_errors.mlir:15:1: `texpr.routine` is no loops.func yet: run the pipeline first, `-p cpu`
// METAL: error: {{.*}}:15:1: `texpr.routine` has no kernels yet: run the pipeline first, `-p metal`
// FILE: error: cannot read the input: {{.*}}no_such_file.mlir

// SHAPES: error: {{.*}}pipelines_errors.mlir:18:3: shapes do not fit in `w * x`
texpr.routine @step {
  %w = texpr.param "w" : !texpr.tensor<2 -> 16>
  %x = texpr.data "x" : !texpr.tensor<10 | 2>
  %z = texpr.apply = mul(%w, %x) logic "." : !texpr.tensor<...b0 | ...i1 -> ...o2>
}
