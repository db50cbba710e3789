# Builds the program without running its tests, which run real-time threads for an hour, and need
# programs and privileges that a build does not have.
{ lib
, rustPlatform
, installShellFiles
, stdenv
}:

rustPlatform.buildRustPackage {
  pname = "punctual";
  version = "0.1.0";

  src = lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;

  nativeBuildInputs = [ installShellFiles ];
  cargoBuildFlags = [ "--package" "punctual" ];
  doCheck = false;

  # The program generates its pages, so it must be able to run on the build machine.
  postInstall = lib.optionalString (stdenv.buildPlatform.canExecute stdenv.hostPlatform) ''
    mkdir man
    $out/bin/punctual man man
    installManPage man/*.1
    installShellCompletion --cmd punctual \
      --bash <($out/bin/punctual completions bash) \
      --zsh <($out/bin/punctual completions zsh) \
      --fish <($out/bin/punctual completions fish)
  '';

  meta = {
    description = "Real-time latency measurement, diagnosis and tuning";
    license = with lib.licenses; [ mit asl20 ];
    mainProgram = "punctual";
    platforms = [ "x86_64-linux" "aarch64-linux" "armv7l-linux" "riscv64-linux" ];
  };
}
